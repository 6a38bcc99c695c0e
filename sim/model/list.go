package model

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
)

// label is a field of a job by which lists find it.
type label struct{ field, value string }

// labels are those of a job: its state, the class of its error, its servers and its user. One that is not indexed has
// none.
func (j *job) labels(indexed bool) (all []label) {
	r := &j.record
	class, crashing := strings.CutPrefix(j.label, "crashing:")
	switch {
	case j.state == absent, !indexed:
		return nil
	case j.state == finished:
		all = []label{{"state", r.state}, {"error", r.err}}
	case j.state == running:
		all = []label{{"state", stateRunning}}
	case j.lot == "paused":
		all = []label{{"state", "paused"}}
	case crashing:
		all = []label{{"state", stateCrashing}, {"error", class}}
	default:
		all = []label{{"state", statePending}}
	}
	if j.state == finished && r.state == stateCompleted {
		all = all[:1]
	}
	for _, endpoint := range []string{r.Source, r.Target} {
		if l := (label{"server", server(endpoint)}); !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	all = append(all, label{"user", r.user})
	return slices.DeleteFunc(all, func(l label) bool { return l.value == "" })
}

// server is the host of a URL with its port, in lower case.
func server(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return ""
	}
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

// shelf is where the rows of a label are: apart are those of jobs that are over, and of requests.
func (j *job) shelf(l label) []any {
	const over, ofRequest = 1, 2
	g := int64(0)
	if j.state == finished {
		g += over
	}
	if j.record.ofRequest() {
		g += ofRequest
	}
	value := l.value
	if len(value) > 255 {
		sum := sha256.Sum256([]byte(value))
		value = hex.EncodeToString(sum[:])
	}
	return []any{g, l.field, value}
}

// list adds the rows of lists in which a job stands, the one by which it is forgotten, and the totals in which it
// counts: of all with a label, of those of its database, and of its account while it demands a slot.
func (m *Model) list(s stand, id string, j job, indexed bool) {
	r := &j.record
	for _, l := range j.labels(indexed) {
		shelf := j.shelf(l)
		s.rows[string(m.index.Pack(append(shelf, id)...))] = ""
		s.totals[string(m.tally.Pack(append([]any{""}, shelf...)...))]++
		if r.Instance != "" {
			s.totals[string(m.tally.Pack(append([]any{r.Instance}, shelf...)...))]++
		}
	}
	if r.expires != 0 {
		s.rows[string(m.expire.Pack(r.expires, id))] = ""
	}
	if j.ready() || j.standing() == "waiting" || j.state == running {
		s.totals[string(m.counts.Pack(r.account()))]++
		s.totals[string(m.weights.Pack(r.account()))] += r.excess()
	}
}
