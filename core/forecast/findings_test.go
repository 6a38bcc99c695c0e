package forecast

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"couchrelay/core/schedule"
)

// TestFindings: which findings there are, with ! for warnings, and which better values they name.
func TestFindings(t *testing.T) {
	for _, c := range []struct {
		name   string
		keys   string // of [replicator], beside 500 slots and a churn of 20
		shares []int64
		jobs   []int64
		shots  int64
		want   string
	}{
		{"CouchDB's defaults", "priority_coeff=0.98", []int64{200, 100, 50}, []int64{2000, 5000, 3000}, 0,
			"memory!(priority_coeff=auto priority_coeff=0.9948 max_churn=77) shares! wait starts usage"},
		{"auto", "", []int64{200, 100, 50}, []int64{2000, 5000, 3000}, 0, "memory shares wait starts usage"},
		{"nothing to be unfair about", "priority_coeff=0.98", []int64{100}, []int64{10_000}, 0,
			"memory(priority_coeff=auto priority_coeff=0.9948 max_churn=77) wait starts usage"},
		{"too long a memory", "priority_coeff=0.9999", []int64{100, 50}, []int64{2000, 5000}, 0,
			"memory!(priority_coeff=auto) shares wait starts usage"},
		{"a short queue", "priority_coeff=0.98", []int64{100}, []int64{1000}, 0, "memory wait starts usage"},
		{"no jobs", "", nil, nil, 0, "slots"},
		{"room for all", "", []int64{100, 50}, []int64{200, 300}, 500, "slots"},
		{"no slots", "max_jobs=0", []int64{100}, []int64{5}, 0, "slots!(max_jobs=500)"},
		{"no turns", "max_churn=0", []int64{100}, []int64{501}, 0, "turns!(max_churn=20)"},
		{"distant turns", "", []int64{100}, []int64{10_000_000}, 0, "turns!(max_churn=500)"},
		{"one gives way", "max_churn=1", []int64{100}, []int64{1_000_000}, 0, "turns!(max_churn=500)"},
		{"more than a tenth of starts", "interval=1500", []int64{100}, []int64{2000}, 0,
			"memory wait starts!(max_churn=13) usage"},
		{"turns too distant", "", []int64{100}, []int64{1_000_000_000}, 0, "turns!"},
		{"fifo", "scheduling_policy=fifo", []int64{100, 50}, []int64{2000, 4000}, 0,
			"policy!(scheduling_policy=fairshare scheduling_policy=tags) shares! wait starts"},
		{"fifo with equal shares", "scheduling_policy=fifo", []int64{100, 100}, []int64{900, 900}, 0,
			"shares wait starts"},
		{"tags", "scheduling_policy=tags", []int64{100, 50}, []int64{2000, 5000}, 0, "shares wait starts"},
		{"tags and few shares", "scheduling_policy=tags", []int64{1000, 1}, []int64{2000, 1000}, 0,
			"policy!(scheduling_policy=fairshare) shares! wait!(max_churn=30 max_jobs=1000) starts"},
		{"few shares and short runs", "max_jobs=75 max_churn=10 priority_coeff=0.98", []int64{1000, 100, 1},
			[]int64{125, 150, 900}, 0, "memory shares! wait starts usage"}, // tags would be further off
		{"a noisy neighbour and short runs", "max_jobs=50 max_churn=50 priority_coeff=0.98", []int64{100, 100},
			[]int64{900, 40}, 0, "memory shares!(scheduling_policy=tags) wait starts usage"},
		{"one-shots", "", []int64{100}, []int64{2000}, 400, "memory wait starts usage one_shots"},
		{"one-shots everywhere", "", []int64{100}, []int64{2000}, 500, "memory wait starts usage one_shots!"},
		{"one-shots without slots", "max_jobs=0", []int64{100}, []int64{5}, 5, "slots!(max_jobs=500)"},
		{"a one-shot on the only slot", "max_jobs=1", []int64{100}, []int64{2}, 1,
			"memory wait starts min_run usage one_shots!"},
		{"long waits", "", []int64{100}, []int64{100_000}, 0, "memory wait!(max_churn=96 max_jobs=1000) starts usage"},
		{"many starts", "interval=1s max_churn=50", []int64{100}, []int64{2000}, 0,
			"memory wait starts!(max_churn=8) usage"},
		{"long runs", "min_run_time_sec=3600", []int64{100}, []int64{2000}, 0,
			"memory wait starts min_run usage"},
		{"use in short periods", "usage_coeff=0.9 usage_interval=6000 priority_coeff=0.8 max_churn=400", []int64{100},
			[]int64{2000}, 0, "memory wait starts usage"},
		{"use in long periods", "usage_interval=1800000 priority_coeff=0.98", []int64{100}, []int64{1000}, 0,
			"memory wait starts usage!(usage_interval=60000)"},
		{"priorities in long periods", "priority_interval=120000 priority_coeff=0.98", []int64{200, 100, 50},
			[]int64{4000, 10_000, 6000}, 0,
			"memory!(priority_coeff=auto priority_coeff=0.995 max_churn=79) shares! wait starts usage"},
		{"use that is remembered longer", "usage_coeff=0.9 priority_coeff=0.8 max_churn=400", []int64{100},
			[]int64{2000}, 0, "memory wait starts usage!(usage_coeff=0.5)"},
	} {
		s, q := world(500, 20, 0, c.shares, c.jobs)
		q.OneShots = c.shots
		for _, pair := range strings.Fields(c.keys) {
			key, value, _ := strings.Cut(pair, "=")
			if err := s.Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		list, _ := Findings(s, q)
		var got []string
		for _, f := range list {
			text := f.Name
			if f.Warning {
				text += "!"
			}
			var better []string
			for _, b := range f.Better {
				better = append(better, b.Key+"="+b.Value)
			}
			if better != nil {
				text += "(" + strings.Join(better, " ") + ")"
			}
			got = append(got, text)
		}
		if all := strings.Join(got, " "); all != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, all, c.want)
		}
	}
}

// TestBetterIsBetter: who follows the advice on memory has it no more, and gets what was predicted.
func TestBetterIsBetter(t *testing.T) {
	s, q := world(500, 20, 980_000, []int64{200, 100, 50}, []int64{2000, 5000, 3000})
	list, _ := Findings(s, q)
	for _, b := range list[0].Better {
		other := s
		if err := other.Set(b.Key, b.Value); err != nil {
			t.Fatal(err)
		}
		list, f := Findings(other, q)
		if f.Ratio < ShortMemory || f.ShareError >= unfair || list[0].Warning {
			t.Errorf("%s = %s: %+v", b.Key, b.Value, list[0])
		}
		if points := Points(f.ShareError); !strings.Contains(b.Then, "by up to "+points+" points") {
			t.Errorf("%s = %s: %s, and not %s", b.Key, b.Value, b.Then, points)
		}
	}
}

// TestWaitAndStartsFollowed: who follows the advice on long waits and on many starts has it no more.
func TestWaitAndStartsFollowed(t *testing.T) {
	for _, c := range []struct {
		name, keys string
		jobs       []int64
	}{
		{"wait", "max_churn=1", []int64{9000, 1000}}, {"wait", "max_churn=7", []int64{9000, 1000}},
		{"wait", "max_churn=20", []int64{100_000}}, {"wait", "max_churn=20", []int64{40_000, 1000}},
		{"starts", "interval=1500", []int64{2000}}, {"starts", "interval=1s max_churn=50", []int64{2000}},
		{"starts", "interval=1s max_churn=200", []int64{9000, 1000}},
	} {
		s, q := world(500, 20, 0, []int64{100, 100}[:len(c.jobs)], c.jobs)
		for _, pair := range strings.Fields(c.keys) {
			key, value, _ := strings.Cut(pair, "=")
			if err := s.Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		find := func() (f Finding) {
			list, _ := Findings(s, q)
			for _, f = range list {
				if f.Name == c.name {
					return f
				}
			}
			return f
		}
		f := find()
		if !f.Warning || len(f.Better) == 0 {
			t.Errorf("%s %s: %+v", c.name, c.keys, f)
			continue
		}
		if err := s.Set(f.Better[0].Key, f.Better[0].Value); err != nil {
			t.Fatal(err)
		}
		if after := find(); after.Warning {
			t.Errorf("%s %s: %+v, followed: %+v", c.name, c.keys, f.Better[0], after)
		}
	}
}

// TestSays: what operators read of queues of all kinds, word by word, is in testdata/says.txt.
func TestSays(t *testing.T) {
	var got strings.Builder
	stride, err := schedule.ParsePolicy("stride") // for simulations only
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keys         string // of [replicator]
		policy       schedule.Policy
		shares, jobs []int64
		shots        int64
	}{
		{"priority_coeff=0.98", schedule.FairShare, []int64{200, 100, 50}, []int64{2000, 5000, 3000}, 100},
		{"priority_coeff=0.9999", schedule.FairShare, []int64{100, 50}, []int64{2000, 5000}, 500},
		{"", schedule.Tags, []int64{1000, 1}, []int64{2000, 1000}, 0},
		{"", stride, []int64{1000, 1}, []int64{2000, 1000}, 0},
		{"", schedule.FIFO, []int64{100, 50}, []int64{2000, 4000}, 0},
		{"max_jobs=0", schedule.FairShare, []int64{100}, []int64{5}, 0},
		{"max_churn=0", schedule.FairShare, []int64{100}, []int64{501}, 0},
		{"", schedule.FairShare, []int64{100, 50}, []int64{200, 300}, 500},
		{"interval=1s max_churn=50", schedule.FairShare, []int64{100}, []int64{2000}, 0},
		{"min_run_time_sec=3600", schedule.FairShare, []int64{100}, []int64{2000}, 0},
		{"max_jobs=50 max_churn=50 priority_coeff=0.98", schedule.FairShare, []int64{100, 100}, []int64{900, 40}, 0},
		{"usage_interval=1800000 priority_coeff=0.98", schedule.FairShare, []int64{100}, []int64{1000}, 0},
	} {
		s, q := world(500, 20, 0, c.shares, c.jobs)
		s.Replicator.Sharing.Policy, q.OneShots = c.policy, c.shots
		for _, pair := range strings.Fields(c.keys) {
			key, value, _ := strings.Cut(pair, "=")
			if err := s.Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintf(&got, "# %v %s: shares %v of jobs %v, %d one-shots\n", c.policy, c.keys, c.shares, c.jobs, c.shots)
		list, _ := Findings(s, q)
		for _, f := range list {
			fmt.Fprintf(&got, "%s, %s = %s: %s\n", f.Name, f.Key, f.Value, f.Says)
			for _, b := range f.Better {
				fmt.Fprintf(&got, "\t%s = %s: %s\n", b.Key, b.Value, b.Then)
			}
		}
	}
	want, err := os.ReadFile("testdata/says.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// TestMoreOneShotsThanSlots: they hold no more than all slots.
func TestMoreOneShotsThanSlots(t *testing.T) {
	s, q := world(500, 20, 0, []int64{100}, []int64{2000})
	q.OneShots = 600
	list, _ := Findings(s, q)
	if says := list[len(list)-1].Says; !strings.Contains(says, "600 jobs are one-shots") ||
		!strings.Contains(says, "may hold 100.0 % of the slots") {
		t.Error(says)
	}
}

// TestLeastRunsOfAFleet: fewer jobs give way than max_churn of all nodes says, though it is more than that of one.
func TestLeastRunsOfAFleet(t *testing.T) {
	s, q := world(250, 20, 0, []int64{100}, []int64{2000})
	s.Node.MinRun, q.Nodes = 20*round(s), 2
	list, _ := Findings(s, q)
	const want = "A job runs for 17m30s at least, so of 500 slots 25 at most change hands in a round, and not 40."
	for _, f := range list {
		if f.Name == "min_run" && f.Says == want {
			return
		}
	}
	t.Errorf("the findings are %+v", list)
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		Things(1, "job"): "1 job", Things(0, "job"): "0 jobs", Things(1000, "job"): "1,000 jobs",
		Count(0): "0", Count(999): "999", Count(1000): "1,000", Count(-1234567): "-1,234,567", Count(-123): "-123",
		Points(571_428): "57.1", Points(-9_960): "-1.0", Points(400): "0.0", Points(million): "100.0",
		ratio(105_263): "0.11", ratio(4_210): "0.004", ratio(2_105_263): "2.11", ratio(12 * million): "12",
		ratio(10 * million): "10", ratio(1_499): "0.001", ratio(1_500): "0.002", ratio(985_000): "0.99",
		Length(47*time.Hour + 30*time.Minute): "47h30m", Length(Never): "ever",
		Length(475 * time.Minute): "7h55m", Length(50*time.Hour + time.Minute): "2d2h",
		Length(150 * time.Millisecond): "150ms", Length(61 * time.Second): "1m1s", Length(2 * time.Hour): "2h",
		coefficient(415*time.Minute, time.Minute):        "0.9948",
		coefficient(10_000_000*time.Minute, time.Minute): "0.999999",
		coefficient(4340*time.Minute, time.Minute):       "0.9995",
		coefficient(4436*time.Minute, time.Minute):       "0.99951",
		coefficient(time.Minute, time.Minute):            "0.5",
	} {
		if got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}
