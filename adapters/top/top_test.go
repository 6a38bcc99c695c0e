package top

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/terminal"
)

var update = flag.Bool("update", false, "write the golden pictures")

func some(t *testing.T) *service {
	odd := crashing("\x1b[31mred\u202e漢字\n", 3)
	odd["database"] = "team/_replicator"
	held := job("held", "pending", map[string]any{"held_by": "server:db1"})
	paused := job("paused", "paused", map[string]any{"pause": map[string]any{"reason": "disks", "by": "adm"}})
	s := newService(t, held, running("orders", 100, 1_234_567), odd, paused, running("small", 100, 0))
	s.docs = 30_000
	s.jobs[1] = running("orders", 1100, 1_233_567)
	s.after(10 * time.Second)
	return s
}

// TestPictures: screens of all sizes, as they are to be.
func TestPictures(t *testing.T) {
	for _, c := range []struct {
		name, keys    string
		width, height int
	}{
		{"jobs", "", 80, 24}, {"wide", "", 200, 20}, {"narrow", "j", 40, 14}, {"tiny", "", 20, 5},
		{"detail", "<down><enter>", 80, 30}, {"nodes", "n", 80, 16}, {"holds", "h", 80, 16}, {"follow", "f", 80, 16},
		{"accounts", "a", 80, 16}, {"servers", "v", 80, 16}, {"errors", "e", 80, 16},
		{"help", "?", 80, 36}, {"question", "jc", 80, 24}, {"filter", "/ server=db1", 80, 24}, {"plain", "", 0, 0},
	} {
		s := some(t)
		s.press(c.keys)
		got := s.view(c.width, c.height)
		path := filepath.Join("testdata", c.name+".txt")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || got != string(want) {
			t.Errorf("%s: %v\n%s\nwanted\n%s", c.name, err, got, want)
		}
	}
}

// TestEverySize: no line is wider than the screen, no picture higher, and nothing of a name moves the cursor.
func TestEverySize(t *testing.T) {
	for _, keys := range []string{"", "n", "h", "f", "a", "v", "e", "?", "<enter>", "jj<enter>", "c", "/", "jjx"} {
		s := some(t)
		s.press(keys)
		for _, width := range []int{1, 2, 3, 7, 13, 20, 39, 80, 133, 300} {
			for _, height := range []int{1, 2, 3, 4, 5, 9, 10, 15, 16, 24, 60} {
				lines := s.m.View(width, height, s.now)
				if len(lines) != height {
					t.Errorf("%q %dx%d: %d lines", keys, width, height, len(lines))
				}
				for _, l := range lines {
					if text := l.String(); terminal.Width(text) > width || text != terminal.Clean(text) {
						t.Errorf("%q %dx%d: %q", keys, width, height, text)
					}
				}
			}
		}
	}
}

// TestRates: they are of a window, and begin anew when a counter falls.
func TestRates(t *testing.T) {
	s := newService(t, running("a", 0, 5))
	s.sees("this node  - docs/s  - B/s")
	s.docs, s.jobs[0] = 1000, running("a", 100, 4)
	s.after(2 * time.Second)
	s.sees("500 docs/s  500 kB/s  10 starts/s  30 crashes/min  300 429s/min", "  50 ")
	s.after(20 * time.Second)
	s.sees("this node  0 docs/s")
	s.docs, s.uptime = 10, 0
	s.after(2 * time.Second)
	s.sees("this node  - docs/s")
	s.after(2 * time.Second)
	s.docs, s.uptime = 90_000, s.uptime+3600 // another node answers, which has run for longer
	s.after(2 * time.Second)
	s.sees("this node  - docs/s")
}

// TestOutage: a service that is gone is asked less and less often; when it is back, all goes on.
func TestOutage(t *testing.T) {
	s := newService(t, running("a", 0, 5))
	s.down = "no answer from http://relay1:5980: \x1b[31mrefused"
	s.after(10 * time.Minute)
	s.sees("NO ANSWER since 08:00:02 (9m): no answer from http://relay1:5980: \uFFFD[31mrefused; next try in",
		"running   a")
	if n := len(s.asked); n > 30 {
		t.Errorf("%d requests in 10 minutes", n)
	}
	s.press("p")
	s.sees("it is not known whether that was done")
	s.down = ""
	s.after(31 * time.Second)
	s.sees("all: rows 1-1 of 1")
	before := len(s.asked)
	s.after(20 * time.Second)
	if n := len(s.asked) - before; n != 30 {
		t.Errorf("%d requests in 20 seconds", n)
	}
}

// TestFront: before a CouchDB, whose statistics those of _local are, the node is asked by its name.
func TestFront(t *testing.T) {
	s := newService(t)
	s.front = true
	s.after(2 * time.Second)
	s.sees("figures: those of the CouchDB that answers here")
	if picture := s.view(120, 30); strings.Contains(picture, "the store does not answer") {
		t.Error(picture)
	}
	s.after(2 * time.Second)
	s.sees("running 480 of max_jobs 1,000", "crashing 12")
}

// TestPages: a page of rows is all that is asked for, of 1,000,000 as of 3.
func TestPages(t *testing.T) {
	s := newService(t)
	for i := range PageRows {
		s.jobs = append(s.jobs, running(fmt.Sprint("job", i), i, i))
	}
	s.total = 1_000_000
	s.after(2 * time.Second)
	s.sees("all: rows 1-100 of 1,000,000, by state among these; < > page")
	s.press("]")
	s.sees("rows 101-200 of 1,000,000")
	s.press("<end>")
	if s.view(80, 24); s.m.current().name() != "job99" || s.m.top == 0 {
		t.Errorf("%s is selected, and the first row is %d", s.m.current().name(), s.m.top)
	}
	s.press("[")
	s.sees("rows 1-100 of")
	s.press("3")
	s.sees("state=crashing: rows")
	s.press("5")
	s.press("/ server=h:1 user=u error=e node=n database=d<enter>")
	want := []string{
		"GET /_scheduler/jobs?cursor=c&limit=100", "GET /_scheduler/jobs?limit=100",
		"GET /_scheduler/jobs?limit=100&states=crashing", "GET /_scheduler/docs?database=%2A&limit=100&states=failed",
		"GET /_scheduler/docs?database=d&error=e&limit=100&node=n&server=h%3A1&states=failed&user=u",
	}
	var got []string
	for _, asked := range s.asked[6:] {
		if strings.Contains(asked, "limit=") {
			got = append(got, asked)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("asked is\n%s", strings.Join(got, "\n"))
	}
	s.jobs = append(s.jobs, s.jobs...) // a service that sends too much
	s.after(2 * time.Second)
	if len(s.m.table.Jobs) != PageRows {
		t.Errorf("%d rows are kept", len(s.m.table.Jobs))
	}
}

// TestShortPages: rows have the numbers that they have, also behind a page with fewer than are asked for.
func TestShortPages(t *testing.T) {
	s := newService(t, running("a", 1, 1), running("b", 1, 1))
	s.total = PageRows + 1
	s.after(2 * time.Second)
	s.sees("all: rows 1-2 of 101, by state among these; < > page")
	s.press("]")
	s.sees("all: rows 3-4 of 101")
	s.press("]")
	s.sees("all: rows 5-6 of 101")
	s.press("[[")
	s.sees("all: rows 1-2 of 101")
	s.jobs = nil
	s.press("]")
	s.sees("all: none of 101")
	s.press("]")
	s.sees("all: none of 101, by state among these; < > page")
}

// TestExplained: what is not known is not told as a number.
func TestExplained(t *testing.T) {
	const account = `{"account":{"name":"a","shares":9,"jobs":2,"policy":`
	for text, want := range map[string]string{
		`{"position":7}`: "7 among the ready jobs",
		`{"position":10001,"ahead_bounded":true}`:   "10,001 or later among the ready jobs",
		account + `"tags","usage_seconds":null}}`:   "a: 2 jobs, 9 shares (tags)",
		account + `"fairshare","usage_seconds":0}}`: "a: 2 jobs, 9 shares (fairshare), 0 s recent use of slots",
	} {
		e := &explained{}
		if err := json.Unmarshal([]byte(text), e); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(e.facts()); !strings.Contains(got, " "+want+"]") {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// TestOrders: keys have the selected job paused, and so on; what loses something is asked for again, and is for the job
// of the moment.
func TestOrders(t *testing.T) {
	for keys, want := range map[string]string{
		"p": "01%7Ca/pause", "r": "01%7Ca/resume", "jt": "01%7Cb/retry", "xy": "01%7Ca/reset", "cY": "01%7Ca/cancel",
		"xn": "", "c<escape>": "", "c<enter>": "", "jc<down>": "", "np": "", "?c": "", "j<enter>xy": "01%7Cb/reset",
	} {
		s := newService(t, running("a", 1, 1), running("b", 1, 1))
		s.press(keys)
		got := ""
		for _, asked := range s.asked {
			if path, is := strings.CutPrefix(asked, "POST /_scheduler/jobs/"); is {
				got += path
			}
		}
		if got != want {
			t.Errorf("%q: %q", keys, got)
		}
		if want != "" {
			s.sees("done: the job is paused; soon")
		}
	}
	s := newService(t, running("a", 1, 1), running("b", 1, 1))
	s.press("c")
	s.jobs = s.jobs[1:] // a is gone, and b is selected
	s.after(2 * time.Second)
	s.sees("remove a for good")
	s.press("y")
	if last := s.asked[len(s.asked)-4]; last != "POST /_scheduler/jobs/01%7Ca/cancel" {
		t.Errorf("asked is %s", last)
	}
}

// TestSorting: the selected job stays selected, and rows that are equal stand still.
func TestSorting(t *testing.T) {
	s := some(t)
	s.press("<down>") // small, which runs, too
	order := func() (names []string) {
		for i := range s.m.table.Jobs {
			names = append(names, s.m.table.Jobs[i].name()[:4])
		}
		return names
	}
	red := "\uFFFD[31"[:4]
	for _, want := range [][]string{
		{"orde", "smal", red, "paus", "held"}, {"orde", "smal", red, "paus", "held"}, // state, rate
		{"orde", "smal", red, "paus", "held"}, {red, "orde", "smal", "paus", "held"}, // pending, errors
		{"orde", "smal", "paus", "held", red}, {"orde", "smal", "paus", "held", red}, // database, started
		{"held", "orde", "paus", "smal", red}, // name
	} {
		if got := order(); !reflect.DeepEqual(got, want) || s.m.current().name() != "small" {
			t.Errorf("%s: %q, and %s is selected", s.m.sort, got, s.m.current().name())
		}
		s.press("s")
	}
	s.press("SR")
	if got := order(); got[0] != red || got[4] != "held" || s.m.sort != "name" {
		t.Errorf("%s: %q", s.m.sort, got)
	}
}

// TestStaleAnswers: rows of another filter, and answers to rounds that an order has overtaken, are not shown.
func TestStaleAnswers(t *testing.T) {
	s := newService(t, running("a", 1, 1))
	s.now = s.now.Add(2 * time.Second)
	s.do(s.m.Tick(s.now))
	old := s.round
	s.do(s.m.Press("3", s.now))
	if s.round != old {
		t.Error("two rounds are under way")
	}
	s.answer()
	if s.sees("state=crashing: rows"); len(s.asked) != 9 {
		t.Errorf("%d requests: %q", len(s.asked), s.asked)
	}
	s.now = s.now.Add(2 * time.Second)
	s.do(s.m.Tick(s.now))
	old = s.round
	s.do(s.m.Press("p", s.now))
	if effects := s.m.Take(old.ID, []Answer{{Problem: "late"}}, s.now); effects != nil || s.m.Problem() != "" {
		t.Error("a round that was overtaken counts")
	}
	s.do(s.m.Press("q", s.now))
	if s.ended != "" {
		t.Error("the view ends before the order is answered")
	}
	s.answer()
	if s.ended != "quit" {
		t.Error("the view does not end")
	}
}

// TestRefusals: a user who may not see nodes and figures sees the jobs.
func TestRefusals(t *testing.T) {
	s := newService(t, running("a", 1, 1))
	for range 2 {
		s.now = s.now.Add(2 * time.Second)
		s.do(s.m.Tick(s.now))
		var answers []Answer
		for _, r := range s.round.Requests {
			a := Answer{Request: r, Problem: "forbidden: \x07 no (status 403)", Refused: true}
			if r.What == "rows" {
				a = s.answerTo(r)
				a.Request = r
			}
			answers = append(answers, a)
		}
		s.m.Take(s.round.ID, answers, s.now)
	}
	s.sees("nodes: forbidden: \uFFFD no", "jobs 1   figures: forbidden", "running   a", "this node  - docs/s")
	s.m.Take(s.m.round, []Answer{{Request: s.m.rowsRequest(), Problem: "unavailable: the store", Refused: true}}, s.now)
	s.sees("unavailable: the store")
	s.m.Take(s.m.round, []Answer{{Request: s.m.rowsRequest(), Raw: []byte("[]")}}, s.now)
	s.sees("is it a couchrelay?")
	if s.m.Problem() == "" {
		t.Error("nothing is wrong")
	}
}

// TestKeys: those that end, freeze and ask.
func TestKeys(t *testing.T) {
	for keys, want := range map[string]string{"q": "quit", "<ctrl-c>": "quit", "<ctrl-z>": "suspend", "/q": "",
		"c<ctrl-c>": "quit", "zZ$é": ""} {
		s := newService(t, running("a", 1, 1))
		if s.press(keys); s.ended != want {
			t.Errorf("%q: %q", keys, s.ended)
		}
	}
	s := newService(t, running("a", 1, 1))
	s.press(" ")
	s.after(time.Minute)
	if len(s.asked) != 3 {
		t.Errorf("frozen, and asked %q", s.asked)
	}
	s.sees("FROZEN")
	s.press("<ctrl-l>")
	if len(s.asked) != 6 {
		t.Errorf("asked %q", s.asked)
	}
	s.press("/nonsense<enter>")
	s.sees("nonsense: a filter has words such as")
	s.press("/state=pauset<backspace>d<enter>")
	s.sees("state=paused: rows 1-1")
	s.press("/<ctrl-u><enter>")
	s.sees("all: rows")
	s.jobs = nil
	s.after(3 * time.Minute)
	s.press(" <down><enter>pxc")
	s.sees("there are none")
}

// TestGone: a job that ends while it is looked at stays on the screen, with a line that says so.
func TestGone(t *testing.T) {
	s := newService(t, running("a", 1, 1))
	s.press("<enter>")
	s.jobs = nil
	s.after(2 * time.Second)
	s.sees("not_found: job_not_found", "https://a.example.com/a/")
}

// TestHelpFits: all keys are told on a terminal of 80 columns.
func TestHelpFits(t *testing.T) {
	for _, l := range helpLines() {
		if terminal.Width(l.String()) > 80 {
			t.Errorf("too wide: %s", l)
		}
	}
	for key := range orders {
		if !strings.Contains(help, " "+key+" ") && !strings.Contains(help, "\n"+key+" ") {
			t.Errorf("%s is not told", key)
		}
	}
}

func TestFilters(t *testing.T) {
	f, err := ParseFilter("state=a,b server=h:1  user=u=v")
	if err != nil || f != (Filter{State: "a,b", Server: "h:1", User: "u=v"}) ||
		f.String() != "state=a,b server=h:1 user=u=v" {
		t.Errorf("%+v %v", f, err)
	}
	for _, text := range []string{"a", "states=x", "=", "state"} {
		if _, err := ParseFilter(text); err == nil || errors.Unwrap(err) != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestJSON(t *testing.T) {
	s := some(t)
	raw, err := s.m.JSON(s.now)
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Time  string
		Jobs  map[string]int
		Nodes []struct{ Name string }
		Rates struct{ Docs float64 }
		Rows  []struct {
			DocID   string   `json:"doc_id"`
			Rate    *float64 `json:"docs_per_second"`
			Pending *int64   `json:"changes_pending"`
			Errors  int
			Problem string
		}
	}
	if err := json.Unmarshal(raw, &p); err != nil || p.Jobs["pending"] != 999_000 || len(p.Nodes) != 2 ||
		p.Time != "2026-01-31T08:00:10Z" || len(p.Rows) != 5 || *p.Rows[0].Rate != 100 ||
		*p.Rows[0].Pending != 1_233_567 || p.Rows[2].Errors != 3 || p.Rows[4].Problem != "held by server:db1" ||
		p.Rows[4].Rate != nil {
		t.Errorf("%v\n%s", err, raw)
	}
}

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		number(0): "0", number(999): "999", number(1000): "1,000", number(-1234567): "-1,234,567",
		rate(0): "0", rate(0.04): "0.0", rate(9.94): "9.9", rate(9.96): "10", rate(12345): "12,345",
		sizeOf(12): "12 B", sizeOf(999): "999 B", sizeOf(1500): "1.5 kB", sizeOf(12e6): "12 MB",
		sizeOf(5e15): "5,000 TB",
		short(-1):    "0s", short(100 * time.Millisecond): "100ms", short(90 * time.Second): "90s",
		short(5 * time.Minute): "5m", short(30 * time.Hour): "30h", short(72 * time.Hour): "3d",
	} {
		if got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

// TestServersOfAnyName: a server has its place in the statistics whatever its name is, one that leaves have too.
func TestServersOfAnyName(t *testing.T) {
	const leaf = `{"value":3,"type":"counter","desc":"d"}`
	f, err := readFigures([]byte(`{"couchrelay":{"endpoint_requests_total":{"throttled":{"value":` + leaf + `,"type":` +
		leaf + `,"db1":` + leaf + `}}}}`))
	if err != nil || f.counters.Throttled != 9 {
		t.Errorf("%v, %v", f.counters, err)
	}
}
