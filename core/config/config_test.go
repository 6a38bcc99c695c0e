package config

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/schedule"
	"couchrelay/core/session"
	"couchrelay/core/spec"
)

// TestKeysAreReadAsWritten: what Get writes Set reads, so that a configuration can be told and told again.
func TestKeysAreReadAsWritten(t *testing.T) {
	odd := Default()
	for name, value := range map[string]string{
		"max_jobs": "7", "interval": "1500", "scheduling_policy": "fifo", "usage_coeff": "0.25",
		"priority_coeff": "0.995", "startup_jitter": "0", "health_threshold": "3h", "use_bulk_get": "false",
		"valid_proxy_protocols": "http,socks5", "socket_options": "[{sndbuf, 65536}, {nodelay, false}]",
		"usage_interval": "30s", "priority_interval": "250", "growth_interval": "2m",
		"cert_file": "/a", "key_file": "/b", "ssl_trusted_certificates_file": "/c", "request_timeout": "90s",
		"cacert_reload_interval_hours": "2", "ssl_certificate_max_depth": "0", "create_replicator_db": "false",
		"auth_plugins": "couch_replicator_auth_session, couch_replicator_auth_noop",
	} {
		if err := odd.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []Settings{Default(), odd} {
		to := Default()
		for _, k := range Replicator {
			text := k.Get(&from)
			if text == "" {
				continue // a file that there is not
			}
			if err := to.Set(k.Name, text); err != nil {
				t.Error(err)
			}
		}
		if !reflect.DeepEqual(to, from) {
			t.Errorf("got  %+v\nwant %+v", to, from)
		}
	}
}

// TestEveryKeyIsDescribed demands of each key one sentence and the values that it takes.
func TestEveryKeyIsDescribed(t *testing.T) {
	c, byDefault := Default(), Default()
	rows := append(Replicator.Rows("replicator", &c, &byDefault), c.Shares()...)
	for _, r := range rows {
		if r.Key == "" || r.Takes == "" || !strings.HasSuffix(r.Says, ".") || strings.Contains(r.Says, ". ") {
			t.Errorf("%+v", r)
		}
		if shares := r.Section == "replicator.shares"; r.Section != "replicator" && !shares {
			t.Errorf("%s is in section %q", r.Key, r.Section)
		}
	}
	if len(rows) != len(Replicator)+1 {
		t.Errorf("%d rows", len(rows))
	}
}

// TestManual: users read in docs/configuration.md what each key takes, and its default. What keys are by default, and
// their bounds, changes with the manual alone.
func TestManual(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	manual := strings.NewReplacer("`", "", `\*`, "*", `\|`, "|").Replace(string(text))
	byDefault := Default()
	for _, r := range Replicator.Rows("replicator", &byDefault, &byDefault) {
		row := fmt.Sprintf("\n| %s | %s | %s | %s |", r.Key, r.Says, r.Takes, r.Default)
		if !strings.Contains(manual, row) {
			t.Errorf("the manual lacks %s", row)
		}
	}
}

// TestRows: a row has the value of the key beside its default.
func TestRows(t *testing.T) {
	c, byDefault := Default(), Default()
	for _, err := range []error{
		c.Set("interval", "90000"), c.SetShares("user:b", "7"), c.SetShares("_replicator", "900"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r := Replicator.Rows("replicator", &c, &byDefault)[2]
	if r.Key != "interval" || r.Value != "1m30s" || r.Default != "1m" {
		t.Errorf("%+v", r)
	}
	shares := c.Shares()
	if len(shares) != 2 || shares[0].Key != "_replicator" || shares[1].Value != "7" || shares[1].Default != "100" {
		t.Errorf("%+v", shares)
	}
}

// TestEachKeySetsItsOwn: a key changes what it tells itself, and nothing that another one tells. A plain number
// is one of the units that the key's name says.
func TestEachKeySetsItsOwn(t *testing.T) {
	values := []string{"150", "30", "3", "0.25", "true", "false", "fifo", "[{sndbuf, 65536}]", "/a",
		string(session.Cookie), "a.test", "a.test:443:b.test:80", "off", "2000000", "http", "nodelay"}
	byDefault := Default()
	for _, k := range Replicator {
		if slices.Contains(fixed, k.Name) {
			continue
		}
		s, value := Default(), ""
		for _, v := range values {
			if s.Set(k.Name, v) == nil && k.Get(&s) != k.Get(&byDefault) {
				value = v
				break
			}
		}
		if value == "" {
			t.Errorf("%s takes none of %q", k.Name, values)
		}
		for _, other := range Replicator {
			alike := strings.TrimSuffix(other.Name, "_sec") == strings.TrimSuffix(k.Name, "_sec") ||
				strings.HasSuffix(other.Name, "_jitter") && strings.HasSuffix(k.Name, "_jitter")
			if !alike && other.Get(&s) != other.Get(&byDefault) {
				t.Errorf("%s = %s makes %s %s", k.Name, value, other.Name, other.Get(&s))
			}
		}
		unit := time.Millisecond
		switch {
		case strings.HasSuffix(k.Name, "_sec"), strings.HasSuffix(k.Name, "_backoff_penalty"),
			k.Name == "health_threshold", k.Name == "cluster_start_period", k.Name == "session_min_update_interval":
			unit = time.Second
		case strings.HasSuffix(k.Name, "_hours"):
			unit = time.Hour
		}
		if d, err := time.ParseDuration(k.Get(&s)); err == nil && d > 0 && d != 150*unit {
			t.Errorf("%s = %s is %s", k.Name, value, k.Get(&s))
		}
	}
}

// TestTwoNames: a setting that has two names takes the same values under both, unless these have other units.
func TestTwoNames(t *testing.T) {
	takes := map[string]string{}
	for _, k := range Replicator {
		if strings.HasSuffix(k.Name, "_sec") {
			takes[strings.TrimSuffix(k.Name, "_sec")] = k.Takes
		}
	}
	found := 0
	for _, k := range Replicator {
		if other, has := takes[k.Name]; has && !strings.Contains(k.Takes, "millisecond") {
			if found++; other != k.Takes {
				t.Errorf("%s takes %s, and with _sec %s", k.Name, k.Takes, other)
			}
		}
	}
	if found < 2 {
		t.Errorf("there are %d such settings", found)
	}
	for _, k := range Replicator {
		says, second := strings.CutPrefix(k.Says, "The same setting as ")
		first, has := SecondNames[k.Name]
		if has != second || has && !strings.HasPrefix(says, first+",") {
			t.Errorf("%s is the second name of %q: %s", k.Name, first, k.Says)
		}
	}
}

// TestStatedBounds: a number is taken from the least to the most that the manual says, and none beyond.
func TestStatedBounds(t *testing.T) {
	tried := 0
	for _, k := range Replicator {
		var least, most int64
		if _, err := fmt.Sscanf(k.Takes, "a whole number from %d to %d", &least, &most); err != nil {
			most = math.MinInt64
			if at := strings.Index(k.Takes, "at least "); at < 0 {
				continue
			} else if _, err := fmt.Sscanf(k.Takes[at:], "at least %d", &least); err != nil {
				continue
			}
		}
		tried++
		for n, taken := range map[int64]bool{least - 1: false, least: true, most: true, most + 1: false} {
			s := Default()
			if err := s.Set(k.Name, fmt.Sprint(n)); n > math.MinInt64+1 && (err == nil) != taken {
				t.Errorf("%s = %d: %v, and it takes %s", k.Name, n, err, k.Takes)
			}
		}
	}
	if tried < 20 {
		t.Errorf("%d settings have bounds", tried)
	}
}

// fixed are keys of CouchDB with one meaning here.
var fixed = []string{"update_docs", "max_document_id_length", "ibrowse_options", "valid_ibrowse_options"}

// TestFixed: what these keys say by default is accepted, and any other value is refused with a reason.
func TestFixed(t *testing.T) {
	for name, want := range map[string]string{
		"update_docs":            "true: must be false: documents have final states only; see /_scheduler/docs",
		"max_document_id_length": "true: must be infinity: ids of any length are copied, and those",
		"ibrowse_options":        "true: must be [], [{prefer_ipv6, false}] or",
		"valid_ibrowse_options":  "there is no other",
	} {
		s := Default()
		if err := s.Set(name, "true"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, k := range Replicator { // the manual tells the one value that they take
		one := k.Name == "update_docs" || k.Name == "max_document_id_length"
		if s := Default(); one && (k.Takes != k.Get(&s) || k.Set(&s, k.Takes) != nil) {
			t.Errorf("%s takes %s, and is %s", k.Name, k.Takes, k.Get(&s))
		}
	}
}

// TestPasswordIsNotShown: neither in rows nor in errors.
func TestPasswordIsNotShown(t *testing.T) {
	s := Default()
	if err := s.Set("password", "s3cret"); err != nil || s.TLS.Password.Reveal() != "s3cret" {
		t.Errorf("%v, %v", s.TLS.Password, err)
	}
	if text := fmt.Sprintf("%+v %#v", s, Replicator.Rows("replicator", &s, &s)); strings.Contains(text, "s3cret") {
		t.Error(text)
	}
	for _, refused := range []string{"", "*****"} {
		if err := s.Set("password", refused); err == nil || s.TLS.Password.Reveal() != "s3cret" {
			t.Errorf("%q: %v", refused, err)
		}
	}
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"60": time.Minute, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "0": 0,
	} {
		s := Default()
		if err := s.Set("min_run_time_sec", text); err != nil || s.Node.MinRun != want {
			t.Errorf("%s is %s, %v", text, s.Node.MinRun, err)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", time.Hour: "1h", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s",
		250 * time.Millisecond: "250ms",
	} {
		if got := Short(d); got != want {
			t.Errorf("%s is written %s, want %s", d, got, want)
		}
	}
}

// TestBounds: a value beyond the bounds is refused, and so is a number of units that no time can hold.
func TestBounds(t *testing.T) {
	for _, c := range []struct{ name, last, beyond string }{
		{"activity_timeout_sec", "2", "1"}, {"stop_timeout_sec", "1", "0"}, {"stall_timeout_sec", "60", "59"},
		{"stall_timeout_sec", "0", "1"}, {"interval", "100", "99"},
		{"min_run_time_sec", "0", "-1"}, {"min_run_time_sec", "9223372036", "18446744074"},
		{"min_run_time_sec", "1", "-18446744072"},
		{"valid_endpoint_protocols", "https", "htps"}, {"valid_endpoint_protocols", "http,https", ""},
		{"valid_proxy_protocols", "socks5", "http, socks"}, {"valid_socket_options", "nodelay", "no_delay"},
		{"auth_plugins", "couch_replicator_auth_noop,couch_replicator_auth_session", "noop"},
		{"auth_plugins", "couch_replicator_auth_noop", "couch_replicator_auth_noop,couch_replicator_auth_noop"},
		{"endpoint_allow", "*.a.test, 10.0.0.0/8", "a/b"}, {"endpoint_deny", "[fd00::1]:80", ""},
		{"connect_to", "a.test:80:[fd00::1]:80", "a.test:80"},
		{"auth_plugins", "couch_replicator_auth_session", ""}, {"session_refresh_interval_sec", "1", "0"},
		{"worker_processes", "1", "0"}, {"worker_batch_size", "100000", "100001"}, {"max_jobs", "0", "-1"},
		{"priority_coeff", "0.000001", "0.0000004"}, {"priority_coeff", "1", "1.000001"},
	} {
		s := Default()
		if err := s.Set(c.name, c.last); err != nil {
			t.Error(err)
		}
		before := s
		if err := s.Set(c.name, c.beyond); err == nil || !reflect.DeepEqual(s, before) {
			t.Errorf("%s takes %s: %v", c.name, c.beyond, err)
		}
	}
}

// TestPolicyNames: simulations have policies that services do not have, and neither takes an unknown one.
func TestPolicyNames(t *testing.T) {
	for _, c := range []struct {
		simulated   bool
		name, error string
	}{
		{false, "tags", ""}, {true, "tags", ""}, {true, "lottery", ""},
		{false, "lottery", "is there for comparison in simulations (couchsim), and not for services; must be one of " +
			"fairshare, fifo, tags"},
		{false, "fair", "must be one of fairshare, fifo, tags"},
		{true, "fair", "must be one of fairshare, fifo, tags, stride, lottery, eevdf"},
	} {
		s := Default()
		s.Simulated = c.simulated
		err := s.Set("scheduling_policy", c.name)
		if err == nil && (c.error != "" || s.Replicator.Sharing.Policy.String() != c.name) ||
			err != nil && (c.error == "" || !strings.HasSuffix(err.Error(), c.error)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestCoefficients(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "0.9": 900_000, "0.0000014": 1, "0.0000019": 2,
		".25": 250_000, "1e-3": 1000} {
		s := Default()
		if err := s.Set("usage_coeff", text); err != nil || s.Replicator.Sharing.Forgetting.Coeff != want {
			t.Errorf("%s is %d millionths, %v", text, s.Replicator.Sharing.Forgetting.Coeff, err)
		}
	}
	for _, text := range []string{"", "-0.1", "0.91", "NaN", "Inf", "-Inf", "1e300", "1e400", "a"} {
		s := Default()
		err := s.Set("usage_coeff", text)
		if err == nil || !strings.HasSuffix(err.Error(), "must be a number from 0 to 0.9") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCheck(t *testing.T) {
	s := Default()
	s.Node.Interval, s.Replicator.Sharing.Policy = 5*time.Second, schedule.Tags
	if err := s.Check(); err != nil || s.Replicator.Sharing.Forgetting.Interval != 5*time.Second {
		t.Errorf("%v: %+v", err, s.Replicator.Sharing)
	}
	s.TLS.KeyFile = "key"
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "both or none") {
		t.Error(err)
	}
	s = Default()
	s.Replicator.Backoff.Min = s.Replicator.Backoff.Max
	if err := s.Check(); err != nil {
		t.Errorf("all penalties are alike: %v", err)
	}
	s.Replicator.Backoff.Min = s.Replicator.Backoff.Max + 1
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "is above max_backoff_penalty_sec") {
		t.Error(err)
	}
}

// TestPeriods: those that are not set follow interval.
func TestPeriods(t *testing.T) {
	for _, c := range []struct {
		set   map[string]string
		usage time.Duration
		want  schedule.Periods
	}{
		{nil, time.Minute, schedule.Periods{}},
		{map[string]string{"interval": "5s"}, 5 * time.Second, schedule.Periods{}},
		{map[string]string{"usage_interval": "60000"}, time.Minute, schedule.Periods{}},
		{map[string]string{"usage_interval": "5s"}, 5 * time.Second, schedule.Periods{Rotation: time.Minute}},
		{map[string]string{"priority_interval": "5s", "growth_interval": "2s"}, time.Minute,
			schedule.Periods{Priority: 5 * time.Second, Growth: 2 * time.Second}},
		{map[string]string{"priority_interval": "interval"}, time.Minute, schedule.Periods{}},
	} {
		s := Default()
		for name, value := range c.set {
			if err := s.Set(name, value); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		got := s.Replicator.Sharing
		if got.Forgetting.Interval != c.usage || got.Periods != c.want {
			t.Errorf("%v: use by %s, %+v; want %s, %+v", c.set, got.Forgetting.Interval, got.Periods, c.usage, c.want)
		}
	}
	s := Default()
	const want = "[replicator] usage_interval = 99: must be interval to follow that setting, or a whole number of"
	if err := s.Set("usage_interval", "99"); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Error(err)
	}
}

// TestEmptyTexts: a key that takes a text takes none that is empty, which is a template that was not filled in.
func TestEmptyTexts(t *testing.T) {
	type texts struct {
		text     string
		password spec.Secret
	}
	for name, kind := range map[string]Kind[texts]{
		"text":     Text(func(c *texts) *string { return &c.text }, "a text"),
		"password": Password(func(c *texts) *spec.Secret { return &c.password }),
	} {
		c := texts{"a", spec.Hide("b")}
		if err := kind.Set(&c, ""); err == nil || c.text != "a" || c.password.Reveal() != "b" {
			t.Errorf("an empty %s: %v, %v", name, err, c)
		}
		if err := kind.Set(&c, "x"); err != nil || c.text == "a" && c.password.Reveal() == "b" {
			t.Errorf("%s: %v, %v", name, err, c)
		}
	}
}

// TestErrorsShowNoSecrets: the error of a value that is not taken shows the value, unless it is a secret.
func TestErrorsShowNoSecrets(t *testing.T) {
	refusing := func(*struct{}, string) error { return must("nothing") }
	section := Section[struct{}]{
		{Name: "open", Kind: Kind[struct{}]{Set: refusing}},
		{Name: "closed", Kind: Kind[struct{}]{Set: refusing, Secret: true}},
	}
	for name, shown := range map[string]bool{"open": true, "closed": false} {
		err := section.Set(&struct{}{}, "s", name, "pa55")
		if err == nil {
			t.Fatalf("%s takes anything", name)
		}
		if text := err.Error(); strings.Contains(text, "pa55") != shown || !strings.HasPrefix(text, "[s] "+name) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestVerifiedByDefault: without a configuration the certificates of endpoints are verified.
func TestVerifiedByDefault(t *testing.T) {
	if s := Default(); !s.TLS.Verify {
		t.Error("certificates are not verified")
	}
}

// TestBoundsOfShares: an account has from 1 to 1000 shares.
func TestBoundsOfShares(t *testing.T) {
	for value, valid := range map[string]bool{
		"1": true, "1000": true, "0": false, "-1": false, "1001": false, "x": false, "": false,
	} {
		s := Default()
		if err := s.SetShares("_replicator", value); (err == nil) != valid {
			t.Errorf("%q shares: %v", value, err)
		}
	}
}

// TestUnknownKey: the error about an unknown key names the known key that is spelled nearly alike, or else all
// known keys.
func TestUnknownKey(t *testing.T) {
	s := Section[struct{}]{{Name: "one"}, {Name: "twenty"}}
	for key, want := range map[string]string{
		"three":  "[section] three: no such key; known are one, twenty",
		"twenti": "[section] twenti: no such key; the nearest is twenty",
	} {
		if err := s.Set(&struct{}{}, "section", key, "x"); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestNonsense: a key that does not take a text refuses nonsense by its own name, says what it takes, and stays as it
// was.
func TestNonsense(t *testing.T) {
	const nonsense = "no such value"
	for _, k := range Replicator {
		s := Default()
		was := k.Get(&s)
		switch err := s.Set(k.Name, nonsense); {
		case err != nil && (k.Get(&s) != was || !strings.Contains(err.Error(), k.Name)):
			t.Errorf("%s became %s: %v", k.Name, k.Get(&s), err)
		case err != nil && !strings.Contains(err.Error(), k.Takes) && k.Name != "socket_options": // an example is told
			t.Errorf("%s takes %s: %v", k.Name, k.Takes, err)
		case err == nil && (k.Get(&s) != nonsense || strings.HasPrefix(k.Takes, "one of")) && !k.Secret:
			t.Errorf("%s takes nonsense, and is %s", k.Name, k.Get(&s))
		}
	}
}
