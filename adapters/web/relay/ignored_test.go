package relay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"couchrelay/adapters/archive"
	"couchrelay/adapters/inspect"
)

// unasked is an upkeep that no request of the test may reach.
type unasked struct{ t *testing.T }

func (u unasked) Check(context.Context, bool, func(inspect.Told) error) (inspect.Summary, error) {
	u.t.Error("the store is checked")
	return inspect.Summary{}, nil
}

func (u unasked) Backup(context.Context, io.Writer) (archive.Tail, error) {
	u.t.Error("the store is backed up")
	return archive.Tail{}, errors.New("no")
}

// TestNothingIsIgnored: what a request says beyond what its endpoint reads is refused.
func TestNothingIsIgnored(t *testing.T) {
	var asked ConfigChange
	s := newService(t, func(o *Options) { o.Host, o.Upkeep = configHost{asked: &asked}, unasked{t} })
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	const noObject = "the body must be a JSON object of keys and values, which are strings or null"
	const noKeys = "keys must be a JSON array of at most 1000 strings"
	twice := func(name string) string {
		return `the body cannot be read: duplicate object member name "` + name + `"`
	}
	for name, cases := range map[string][][2]string{
		"query_parse_error": {
			{"GET /_scheduler/nodes?name=n", "unknown parameter `name`: there are none here"},
			{"GET /_scheduler/follow?limit=1", "unknown parameter `limit`: there are none here"},
			{"GET /_scheduler/holds?server=h", "unknown parameter `server`: there are none here"},
			{"DELETE /_scheduler/holds/x?force=1", "unknown parameter `force`: there are none here"},
			{"GET /_scheduler/jobs/x/explain?a=b", "unknown parameter `a`: there are none here"},
			{"POST /_scheduler/jobs/x/pause?reason=b&q", "unknown parameter `q`: there are none here"},
			{"GET /_node/_local/_check?repair=1", "unknown parameter `repair`: there are none here"},
			{"POST /_node/_local/_check?repair=no", "unknown parameter `repair`: there are none here"},
			{"GET /_scheduler/errors?limit=5&limit=6", "limit is given more than once"},
			{"GET /_scheduler/jobs/x/failures?limit=5&limit=", "limit is given more than once"},
			{"GET /_scheduler/jobs?keys=null", noKeys},
			{"GET /_scheduler/jobs?keys=[null]", noKeys},
			{`GET /_scheduler/jobs?start_key="a"&startkey="b"`, "startkey is start_key, which is given as well"},
			{"GET /_scheduler/docs?database=_replicator*", "database must be _replicator or a name that ends with " +
				"/_replicator, and * stands for all in _scheduler/docs"},
		},
		"bad_request": {
			{`POST /_node/_local/_check {"repair":false}`, "the body must be empty, or {}"},
			{`GET /_scheduler/docs/orders`, "Invalid path: no replicator database, which is _replicator or ends with " +
				"/_replicator"},
			{`POST /_node/_local/_backup []`, "the body must be empty, or {}"},
			{`POST /_node/_local/_rekey {"drop":true}`, "the body must be empty, or {}"},
			{`POST /_scheduler/holds {"database":"_replicator","database":"a/_replicator"}`, twice("database")},
			{`PUT /_node/_local/_config/x "x"`, noObject},
			{`PUT /_node/_local/_config/x {"a":"1"`, noObject},
			{`PUT /_node/_local/_config/x {"a":"1","a":"2"}`, twice("a")},
			{`PUT /_node/_local/_config/x {"max_jobs":5}`,
				"`max_jobs`: the value must be a JSON string, such as \"true\" or \"500\", or null"},
		},
	} {
		for _, c := range cases {
			answer := s.Ask(c[0])
			var said struct{ Error, Reason string }
			err := json.NewDecoder(answer.Body).Decode(&said)
			if err != nil || answer.StatusCode != 400 || said.Error != name || !strings.HasPrefix(said.Reason, c[1]) {
				t.Errorf("%s: %d %+v, want %s: %s", c[0], answer.StatusCode, said, name, c[1])
			}
		}
	}
	if asked.Values != nil {
		t.Errorf("the configuration is changed: %+v", asked)
	}
}
