package scenario

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/schedule"
	"couchrelay/sim/decide"
	"couchrelay/sim/world"

	"pgregory.net/rapid"
)

// scenarios draws what a file can say.
func scenarios(t *rapid.T) *Scenario {
	s := &Scenario{Config: Base(), Scripted: rapid.Bool().Draw(t, "scripted")}
	for range rapid.IntRange(0, 3).Draw(t, "lines") {
		s.Text = append(s.Text,
			rapid.SampledFrom([]string{"What it shows.", "", "# twice", "100% = all"}).Draw(t, "line"))
	}
	if rapid.Bool().Draw(t, "regression") {
		s.Broke = rapid.SampledFrom([]string{"S1", "S11a", "L2", "B1a", "P1"}).Draw(t, "broke")
	}
	c := &s.Config
	*c = world.Swarm(rapid.Uint64().Draw(t, "swarm"),
		rapid.SampledFrom([]world.Profile{world.Small, world.Standard}).Draw(t, "profile"))
	c.Sample = rapid.IntRange(0, 10).Draw(t, "sample")
	c.Settings.PollInterval = time.Duration(rapid.IntRange(1000, 1e9).Draw(t, "poll")) * time.Microsecond
	c.Backoff.Min = time.Duration(rapid.IntRange(1, 600).Draw(t, "min")) * time.Second
	for _, account := range rapid.SliceOfN(rapid.SampledFrom(c.Accounts()), 0, 3).Draw(t, "accounts") {
		if c.Sharing.Shares == nil {
			c.Sharing.Shares = map[string]int64{}
		}
		c.Sharing.Shares[account] = rapid.Int64Range(1, 1000).Draw(t, "shares")
	}
	events := rapid.SampledFrom(slices.Concat(world.NemesisFaults, world.AllActions))
	for _, what := range rapid.SliceOfN(events, 0, 5).Draw(t, "events") {
		e := world.Event{At: time.Duration(rapid.IntRange(0, 1e10).Draw(t, "at")) * time.Microsecond, What: what}
		e.Whom = rapid.SampledFrom([]string{"", "n1", "s2", "s1/a1", "s1/b1"}).Draw(t, "whom")
		e.For = time.Duration(rapid.IntRange(0, 1e9).Draw(t, "for")) * time.Microsecond
		if c.CheckEvent(e) == nil {
			c.Events = append(c.Events, e)
		}
	}
	if !s.Scripted {
		s.First = rapid.Uint64Range(0, 1000).Draw(t, "first")
		s.Last = s.First + rapid.Uint64Range(0, 1000).Draw(t, "more")
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "decisions") {
		s.Decisions = append(s.Decisions,
			decide.Choice{Site: rapid.SampledFrom([]string{"nemesis", "n1/store/commit there", "n1>s2/Open"}).Draw(t,
				"site"),
				Index: i, Value: rapid.SampledFrom([]string{"7", "1.5s", "net-refused"}).Draw(t, "value")})
	}
	return s
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scenarios(t)
		text := Format(s)
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if !reflect.DeepEqual(s, again) {
			t.Fatalf("%s\nis read as\n%+v\nand was\n%+v", text, again, s)
		}
	})
}

func TestReadable(t *testing.T) {
	text := `# A store that is gone.
# Nothing is lost (S3).

# Not part of the text at the top.
seeds 1..20
nodes 3   # with a word
duration 1h30m
continuous 0%
rate node-crash 0.5%
rate doc-edit 100%
at 10m node-crash n3 for 30s
at 1m fdb-down
[replicator]
max_jobs = 7
interval = 2000
checkpoint_interval = 30s
http_connections = 4
[replicator.shares]
t1/_replicator = 400
other/_replicator = 7
user:user = 20
`
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	c, shares := s.Config, map[string]int64{"t1/_replicator": 400, "other/_replicator": 7, "user:user": 20}
	if len(s.Text) != 2 || s.First != 1 || s.Last != 20 || s.Scripted || c.Nodes != 3 ||
		c.Duration != 90*time.Minute || c.Continuous != 0 ||
		c.Rates["node-crash"] != 5000 || c.Actions["doc-edit"] != decide.Scale || c.Settings.MaxJobs != 7 ||
		c.Settings.Interval != 2*time.Second ||
		c.CheckpointInterval != 30*time.Second ||
		!slices.Equal(s.Unused, []string{"http_connections", "shares of other/_replicator"}) ||
		!maps.Equal(c.Sharing.Shares, shares) {
		t.Errorf("%+v", s)
	}
	want := []world.Event{{At: 10 * time.Minute, What: "node-crash", Whom: "n3", For: 30 * time.Second},
		{At: time.Minute, What: "fdb-down"}}
	if !slices.Equal(c.Events, want) {
		t.Errorf("%+v", c.Events)
	}
}

// A mistake is told with its line, what it is, and what would be right.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"# x\nnode 3": "2: node: no such word; known are [replicator.shares], [replicator], at, ",
		"think 1ns":   "1: think 1ns: must be a time such as 90s, 1h30m or 250ms, at least 1ms",
		"at 1m db-deleted s1/c1": "1: at 1m0s: db-deleted s1/c1: no such database; must be a server and a database, " +
			"from s1/a1 to s3/b1",
		"nodes 9\nat 1m server-down s7\nat 2m db-x": "2: at 1m0s: server-down s7: no such server; " +
			"must be one of s1 to s3",
		"[replicator]\nmin_backoff_penalty_sec = 9h": "1: [replicator] min_backoff_penalty_sec (9h0m0s) is above " +
			"max_backoff_penalty_sec (10m0s)",
		"nodes x":                                   "1: nodes x: must be a whole number from 1 to 100",
		"nodes 0":                                   "1: nodes 0: must be a whole number from 1 to 100",
		"nodes":                                     "1: nodes: needs one value",
		"nodes 3 4":                                 "1: nodes: needs one value",
		"nodes 3\n\nnodes 4":                        "3: nodes: was said in line 1 already",
		"duration 90":                               "1: duration 90: must be a time such as 90s",
		"continuous 0.5%":                           "1: continuous 0.5%: must be a whole number of percent",
		"continuous 50":                             "1: continuous 50: must be a whole number of percent",
		"seeds 5..1":                                "1: seeds 5..1: must be a number, or two such as 1..20",
		"seeds x":                                   "1: seeds x: must be",
		"broke S99":                                 "1: broke S99: no such invariant",
		"rate node-crash":                           "1: rate: must be followed by",
		"rate node-crush 1%":                        "1: rate node-crush: no such fault or action",
		"rate node-crash 101%":                      "1: rate node-crash 101%: must be a share from 0% to 100%",
		"rate node-crash 0.00001%":                  "1: rate node-crash 0.00001%: must be a share",
		"rate node-crash 1":                         "1: rate node-crash 1: must be a share",
		"rate node-crash 1%\nrate node-crash 1%":    "2: rate node-crash: was said in line 1 already",
		"at 1m":                                     "1: at: must be followed by",
		"at x node-crash":                           "1: at x: must be a time after the beginning",
		"at 1m node-crush":                          "1: at 1m0s: node-crush: no such event; known are fdb-down",
		"at 1m node-crash n7":                       "1: at 1m0s: node-crash n7: no such node; must be one of n1 to n2",
		"at 1m node-drain n1 for 3s":                "1: at 1m0s: node-drain: takes no time",
		"at 1m node-storm n1":                       "1: at 1m0s: node-storm n1: is aimed at nobody",
		"at 1m node-crash n1 for":                   `1: at: "for" is left over`,
		"at 1m node-crash n1 for 0s":                "1: at: for 0s: must be a time such as 30s",
		"at 1m node-crash n1 until 3s":              `1: at: "until 3s" is left over`,
		"decide x":                                  "1: decide: must be followed by",
		"decide x y z":                              `1: decide: the question's number is "y"`,
		"decide x 1 2\ndecide x 1 3":                "2: decide x 1: was said in line 1 already",
		"max_jobs = 3":                              "1: max_jobs: a key and its value must come after [replicator]",
		"[replicator]\nmax_jabs = 3":                "2: [replicator] max_jabs: no such key; the nearest is max_jobs",
		"[replicator]\nmax_jobs = x":                "2: [replicator] max_jobs = x: must be a whole number",
		"[replicator]\nmax_jobs = 1\nmax_jobs = 2":  "3: max_jobs =: was said in line 2 already",
		"[replicator.shares]\n_replicator = 0":      "2: [replicator.shares] _replicator = 0: must be a whole number",
		"[replicator.shares]\nmax_jobs = 3":         "2: [replicator.shares] max_jobs: must be the name",
		"[replicator.shares] x":                     "1: [replicator.shares]: must stand alone",
		"[replicator.shares]\nuser: = 1\nuser: = 1": "3: user: =: was said in line 2 already",
		"[replicator]\n[replicator]":                "2: [replicator]: was said in line 1 already",
	} {
		_, err := Parse(text)
		told, is := errors.AsType[*Error](err)
		if !is || !strings.HasPrefix(told.Error(), want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}

// Every key of production either is written into files or is known to mean nothing in a simulation.
func TestKeys(t *testing.T) {
	nothing := []string{"max_history", "http_connections", "connection_timeout", "use_checkpoints", "use_bulk_get",
		"socket_options",
		"valid_socket_options", "valid_endpoint_protocols", "valid_proxy_protocols", "verify_ssl_certificates",
		"ssl_trusted_certificates_file",
		"cert_file", "key_file",
		"accept_jitter", "auth_plugins", "cacert_reload_interval_hours", "cluster_start_period",
		"connect_to", "connection_close_interval", "create_replicator_db", "endpoint_allow",
		"endpoint_deny", "ibrowse_options", "interval_sec", "max_acceptors", "max_backoff_penalty",
		"max_document_id_length", "max_run_memory", "min_backoff_penalty", "missing_doc_retry_msec", "password",
		"request_timeout", "session_min_update_interval", "session_refresh_interval_sec",
		"ssl_certificate_max_depth", "update_docs", "valid_endpoint_protocols_log",
		"valid_ibrowse_options", "verify_ssl_certificates_log"}
	for _, key := range config.Replicator {
		meant := slices.Contains(settings, key.Name) || key.Name == otherHealth
		if meant == slices.Contains(nothing, key.Name) {
			t.Errorf("[replicator] %s must be in settings, or in this test's list of keys without a meaning here",
				key.Name)
		}
	}
}

// What files say of a key is what production makes of it.
func TestSettings(t *testing.T) {
	for _, name := range append(settings, otherHealth) {
		for _, v := range []string{"3", "7s", "900", "0.5", "tags"} {
			scenario, err := Parse(fmt.Sprintf("[replicator]\nmax_backoff_penalty_sec = 2h\n%s = %s\n", name, v))
			if err != nil || name == "max_backoff_penalty_sec" {
				continue // not of this kind, or said already
			}
			want := config.Default()
			if err := want.Set(name, v); err != nil {
				t.Fatal(err)
			}
			got := production(scenario.Config)
			if is, want := config.Replicator.Get(&got, name), config.Replicator.Get(&want, name); is != want {
				t.Errorf("%s = %s is %s, in production %s", name, v, is, want)
			}
		}
	}
}

// TestPoliciesToCompare: scenarios take policies that services refuse, and write them as they read them.
func TestPoliciesToCompare(t *testing.T) {
	for _, name := range append(schedule.Policies(), schedule.Simulated()...) {
		s, err := Parse("[replicator]\nscheduling_policy = " + name + "\n")
		if err != nil || s.Config.Sharing.Policy.String() != name {
			t.Fatalf("%s: %v", name, err)
		}
		if again, err := Parse(Format(s)); err != nil || again.Config.Sharing.Policy.String() != name {
			t.Errorf("%s: written as %s: %v", name, Format(s), err)
		}
	}
	_, err := Parse("[replicator]\nscheduling_policy = luck\n")
	if err == nil || !strings.Contains(err.Error(), "eevdf") {
		t.Error(err)
	}
}
