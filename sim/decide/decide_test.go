package decide

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/kv/mix"
)

// questions asks a bit of everything and returns the answers.
func questions(d *Decider) (answers []string) {
	var faults Table
	faults.Add("fire", 200_000)
	faults.Add("flood", 300_000)
	for i := range 50 {
		a, b := d.Site("a"), d.Site(fmt.Sprint("b", i%3))
		answers = append(answers,
			fmt.Sprint(a.Int(5), b.Duration(time.Second, 2*time.Second), b.Pick(&faults), a.Chance(100_000),
				b.Seed64()))
	}
	return answers
}

func TestScriptRepeatsARun(t *testing.T) {
	d := New(Seed(7)).Recording()
	first := questions(d)
	if again := questions(Script(d.Choices())); !slices.Equal(first, again) {
		t.Errorf("scripted\n%v\nrecorded\n%v", again, first)
	}
	if again := questions(New(Seed(7))); !slices.Equal(first, again) {
		t.Error("one seed gives two runs")
	}
	if other := questions(New(Seed(8))); slices.Equal(first, other) {
		t.Error("two seeds give one run")
	}
	if calm := questions(Script(nil)); calm[0] != "0 1sfalse 0" || calm[49] != calm[0] {
		t.Errorf("the empty script is not benign: %v", calm)
	}
}

func TestWithoutLeavesTheRest(t *testing.T) {
	d := New(Seed(7)).Recording()
	first := questions(d)
	out := d.Choices()[3]
	masked := New(Seed(7)).Without(out).Recording()
	second := questions(masked)
	if len(masked.Choices()) != len(d.Choices())-1 {
		t.Errorf("%d choices became %d", len(d.Choices()), len(masked.Choices()))
	}
	differ := 0
	for i := range first {
		if first[i] != second[i] {
			differ++
		}
	}
	if differ != 1 {
		t.Errorf("%d answers differ", differ)
	}
}

// TestGuided: bytes add what happens to the answers of a seed, or leave it out, and leave the others as they were.
func TestGuided(t *testing.T) {
	ask := func(d *Decider) (answers []string) {
		var faults Table
		faults.Add("fire", 200_000)
		faults.Add("flood", 300_000)
		for range 20 {
			answers = append(answers, d.Site("a").Pick(&faults))
		}
		return answers
	}
	plain := ask(New(Seed(7)))
	if got := ask(Guided(Seed(7), nil)); !slices.Equal(got, plain) {
		t.Errorf("without bytes %q, want %q", got, plain)
	}
	site := byte(mix.String("a"))
	for i := range plain {
		for which, name := range []string{"", "fire", "flood", "", "fire"} {
			want := slices.Clone(plain)
			want[i] = name
			if got := ask(Guided(Seed(7), []byte{site, 0, byte(i), byte(which)})); !slices.Equal(got, want) {
				t.Errorf("with %d at %d %q, want %q", which, i, got, want)
			}
		}
	}
}

func TestStreamsAreIndependent(t *testing.T) {
	with, without := New(Seed(3)), New(Seed(3))
	for i := range 100 {
		with.Site("other").Int(10)
		if a, b := with.Site("x").Int(1000), without.Site("x").Int(1000); a != b {
			t.Fatalf("question %d: %d and %d", i, a, b)
		}
	}
}

func TestRates(t *testing.T) {
	var faults Table
	faults.Add("never", 0)
	faults.Add("rare", 10_000)
	faults.Add("often", 400_000)
	counts := map[string]int{}
	site := New(Seed(1)).Site("x")
	for range 100_000 {
		counts[site.Pick(&faults)]++
	}
	if counts["never"] > 0 || counts["rare"] < 800 || counts["rare"] > 1200 || counts["often"] < 39_000 ||
		counts["often"] > 41_000 {
		t.Errorf("%v", counts)
	}
	var always Table
	always.Add("all", Scale)
	always.Add("more", Scale)
	for range 1000 {
		if got := site.Pick(&always); got != "all" && got != "" {
			t.Fatal(got)
		}
	}
}

func TestScriptIsForgiving(t *testing.T) {
	d := Script([]Choice{{"x", 0, "99"}, {"x", 1, "-3"}, {"x", 2, "junk"}, {"x", 3, "9h"}, {"x", 4, "anything"}})
	x := d.Site("x")
	if a, b, c := x.Int(5), x.Int(5), x.Int(5); a != 4 || b != 0 || c != 0 {
		t.Error(a, b, c)
	}
	if got := x.Duration(0, time.Second); got != time.Second {
		t.Error(got)
	}
	if got := x.Pick(&Table{}); got != "anything" {
		t.Error(got)
	}
}

func TestTold(t *testing.T) {
	d := New(Seed(7)).Recording()
	first := questions(d)
	var picks []Choice
	for _, c := range d.Choices() {
		if c.Happens() {
			picks = append(picks, c)
		}
	}
	if len(picks) == 0 || len(picks) == len(d.Choices()) {
		t.Fatal(len(picks))
	}
	if again := questions(Told(Seed(7), picks)); !slices.Equal(first, again) {
		t.Error("what happens, and the seed for the rest, is another run")
	}
	quiet := New(Seed(7)).Without(picks...)
	if again := questions(Told(Seed(7), nil)); !slices.Equal(questions(quiet), again) {
		t.Error("told nothing, something happens")
	}
}
