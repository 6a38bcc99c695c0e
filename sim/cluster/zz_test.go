package cluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/sim/decide"
)

func TestOne(t *testing.T) {
	seed, _ := strconv.Atoi(os.Getenv("SEED"))
	p, _ := FindProfile("small")
	w := New(Swarm(uint64(seed), p), decide.New(decide.Seed(seed)))
	w.Engine.Trace = func(at instant.Time, step uint64, actor, text string) {
		l := fmt.Sprintf("%s %d %-6s %s", at.String()[11:], step, actor, text)
		ok := os.Getenv("GREP") == ""
		for _, g := range strings.Split(os.Getenv("GREP"), ",") {
			ok = ok || strings.Contains(l, g)
		}
		if ok {
			fmt.Println(l)
		}
	}
	fmt.Printf("%+v\n", w.Config)
	v := w.Run()
	fmt.Println(v)
}

func TestSeeds(t *testing.T) {
	from, _ := strconv.Atoi(os.Getenv("FROM"))
	to, _ := strconv.Atoi(os.Getenv("TO"))
	p := Small
	if os.Getenv("PROFILE") != "" {
		p, _ = FindProfile(os.Getenv("PROFILE"))
	}
	events, bad := uint64(0), 0
	began := time.Now()
	for seed := from; seed < to; seed++ {
		func() {
			w := New(Swarm(uint64(seed), p), decide.New(decide.Seed(seed)))
			defer func() {
				if r := recover(); r != nil {
					fmt.Println(seed, "PANIC", r)
				}
			}()
			v := w.Run()
			events += w.Engine.Played()
			if v != nil {
				bad++
				text := v.String()
				if len(text) > 300 {
					text = text[:300]
				}
				fmt.Println(seed, text)
			}
		}()
	}
	d := time.Since(began)
	fmt.Printf("%d seeds, %d bad, %.0f events/s, %.1f seeds/s\n", to-from, bad, float64(events)/d.Seconds(), float64(to-from)/d.Seconds())
}
