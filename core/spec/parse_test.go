package spec

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"couchrelay/core/ejson"
	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

const ends = `"source":"http://s/a","target":"https://t/b/"`

// parseDocument parses the text of a document.
func parseDocument(raw string, c Config) (*Replication, error) {
	body, err := ejson.Parse([]byte(raw))
	if err != nil {
		return nil, &Error{Kind: BadRequest, Reason: err.Error()}
	}
	return ParseDocument(body, c)
}

func document(t testing.TB, raw string) *Replication {
	t.Helper()
	r, err := parseDocument(raw, DefaultConfig())
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return r
}

func request(t testing.TB, raw string) *Replication {
	t.Helper()
	r, err := ParseRequest([]byte(raw), DefaultConfig())
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return r
}

func TestDefaults(t *testing.T) {
	endpoint := Endpoint{URL: "http://s/a/", Timeout: 30 * time.Second, Connections: 20, Retries: 5,
		SocketOptions: SocketOptions{KeepAlive: true, NoDelay: true}}
	want := &Replication{
		Source: endpoint, Target: endpoint, UseCheckpoints: true, CheckpointInterval: 30 * time.Second,
		UseBulkGet: true,
		Batches:    Batches{WorkerProcesses: 4, MaxWorkers: 32, WorkerBatchSize: 500},
	}
	want.Target.URL = "https://t/b/"
	if got := document(t, "{"+ends+"}"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestConfiguredDefaults(t *testing.T) {
	c := DefaultConfig()
	c.WorkerProcesses, c.WorkerBatchSize, c.HTTPConnections, c.RetriesPerRequest = 1, 2, 1, 0
	c.ConnectionTimeout, c.CheckpointInterval = time.Second, 2*time.Second
	c.UseCheckpoints, c.UseBulkGet, c.SocketOptions = false, false, SocketOptions{NoDelay: true}
	r, err := parseDocument("{"+ends+"}", c)
	if err != nil {
		t.Fatal(err)
	}
	if r.WorkerProcesses != 1 || r.WorkerBatchSize != 2 || r.UseCheckpoints || r.UseBulkGet ||
		r.CheckpointInterval != 2*time.Second {
		t.Errorf("%+v", r)
	}
	if e := r.Target; e.Connections != 1 || e.Retries != 0 || e.Timeout != time.Second || !e.SocketOptions.NoDelay ||
		e.SocketOptions.KeepAlive {
		t.Errorf("%+v", e)
	}
	if r.Source.Connections != 2 {
		t.Errorf("the source has %d connections, its feed needs one of them", r.Source.Connections)
	}
}

// TestDefaultWeight: a job that names the default weight is the same as one without, which older releases have stored.
func TestDefaultWeight(t *testing.T) {
	named, without := document(t, `{"weight":100,`+ends+`}`), document(t, `{`+ends+`}`)
	if !reflect.DeepEqual(named, without) {
		t.Errorf("%+v, not %+v", named, without)
	}
}

func TestEveryField(t *testing.T) {
	got := document(t, `{
		"_id": "rep", "_rev": "1-x", "_replication_state": "triggered", "weight": 1000,
		"owner": "jan", "user_ctx": {"name": "jan", "roles": ["a", "b"]},
		"source": {"url": "http://s:1/a?x=y",
			"headers": {"X-B": "2", "X-A": "1"}, "auth": {"basic": {"username": "u", "password": "p"}}},
		"target": "https://tu:tp@[::1]/b", "source_proxy": "socks5://pu:pp@proxy", "target_proxy": "http://proxy:3128",
		"continuous": true, "create_target": true, "create_target_params": {"q": 2, "n": "1", "partitioned": true},
		"filter": "dd/f/g", "query_params": {"z": [1, 2], "a": "x y"}, "winning_revs_only": true, "since_seq": [3, "x"],
		"use_checkpoints": false, "checkpoint_interval": "5000", "use_bulk_get": false, "worker_processes": 2,
		"worker_batch_size": "100", "http_connections": 7, "connection_timeout": 1000, "retries_per_request": 0,
		"socket_options": "[{nodelay, true},{sndbuf,1000}, {recbuf , 2000},{buffer,3000},{priority,6}]",
		"ibrowse_options": "[{prefer_ipv6, true}]", "cancel": false, "id": 5, "coment": "typo", "Continuous": 1
	}`)
	endpoint := Endpoint{Timeout: time.Second, Connections: 7,
		SocketOptions: SocketOptions{NoDelay: true, SendBuffer: 1000, ReceiveBuffer: 2000, Buffer: 3000, Priority: 6}}
	want := &Replication{
		DocID: "rep", Owner: "jan", User: UserCtx{Name: "jan", Roles: []string{"a", "b"}},
		Source: endpoint, Target: endpoint,
		Continuous: true, CreateTarget: true,
		CreateTargetParams: []peer.Param{{Name: "q", Value: "2"}, {Name: "n", Value: "1"},
			{Name: "partitioned", Value: "true"}},
		Filter: Filter{Kind: FunctionFilter, Name: "dd/f/g",
			QueryParams: jsontext.Value(`{"z":[1,2],"a":"x y"}`)},
		WinningRevsOnly: true, SinceSeq: jsontext.Value(`[3,"x"]`), CheckpointInterval: 5 * time.Second,
		Batches: Batches{WorkerProcesses: 2, WorkerBatchSize: 100}, Orders: Orders{Weight: 1000},
		Unknown: []string{"id", "coment", "Continuous"},
	}
	want.Source.URL, want.Source.Credentials = "http://s:1/a?x=y", NewCredentials("u", "p")
	want.Source.Headers = []Header{{"X-A", Hide("1")}, {"X-B", Hide("2")}}
	want.Source.Proxy = &Proxy{"socks5://proxy", NewCredentials("pu", "pp")}
	want.Target.URL, want.Target.Credentials = "https://[::1]/b/", NewCredentials("tu", "tp")
	want.Target.Proxy = &Proxy{URL: "http://proxy:3128"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if ddoc, function := got.Filter.DesignDoc(); ddoc != "dd" || function != "f/g" {
		t.Errorf("%q %q", ddoc, function)
	}
}

// TestOnRefusal: the policy for refused documents is a part of the work, though not of the replication's id.
func TestOnRefusal(t *testing.T) {
	plain := document(t, "{"+ends+"}")
	for value, want := range map[string]OnRefusal{"skip": SkipRefused, "fail": FailRefused, "retry": RetryRefused} {
		r := request(t, `{"on_refusal":"`+value+`",`+ends+"}")
		if r.OnRefusal != want || Equal(r, plain) != (want == SkipRefused) {
			t.Errorf("%s: %q, equal to none: %v", value, r.OnRefusal, Equal(r, plain))
		}
	}
}

func TestFilters(t *testing.T) {
	for in, want := range map[string]Filter{
		``:                                {},
		`"doc_ids":null`:                  {},
		`"doc_ids":[]`:                    {Kind: DocIDs},
		`"doc_ids":["b","a%2Fc","a","b"]`: {Kind: DocIDs, DocIDs: []string{"a", "a/c", "b"}},
		`"doc_ids":["%C3%a9","a+b","5%","%30%","%7a%4F"]`: {Kind: DocIDs,
			DocIDs: []string{"0%", "5%", "a b", "zO", "é"}},
		`"doc_ids":null,"selector":{}`: {Kind: Selector, Selector: jsontext.Value(`{}`)},
		`"selector":{"b":1, "a":{"$gt":1}}`: {Kind: Selector,
			Selector: jsontext.Value(`{"b":1,"a":{"$gt":1}}`)},
		`"selector":{"a":{"$regex":"(?!x)"}}`: {Kind: Selector,
			Selector: jsontext.Value(`{"a":{"$regex":"(?!x)"}}`)},
		`"filter":"_design"`: {Kind: BuiltinFilter, Name: "_design"},
		`"filter":"_view","query_params":{"view":"d/v"}`: {Kind: BuiltinFilter, Name: "_view",
			QueryParams: jsontext.Value(`{"view":"d/v"}`)},
		`"filter":"d/f"`:         {Kind: FunctionFilter, Name: "d/f"},
		`"query_params":{"a":1}`: {QueryParams: jsontext.Value(`{"a":1}`)},
	} {
		comma := ","
		if in == "" {
			comma = ""
		}
		if got := document(t, "{"+ends+comma+in+"}").Filter; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", in, got, want)
		}
	}
}

// TestLongestNumber is the other side of the bound on digits.
func TestLongestNumber(t *testing.T) {
	number := strings.Repeat("1", maxDigits)
	if r := document(t, "{"+ends+`,"since_seq":`+number+"}"); string(r.SinceSeq) != number {
		t.Errorf("%s", r.SinceSeq)
	}
}

func TestCancel(t *testing.T) {
	for in, want := range map[string]string{
		`"cancel":true,"id":"a b"`:                                    "a b",
		`"cancel":true,"replication_id":"r","id":"i","_local_id":"l"`: "r",
		`"cancel":true,"_local_id":"l","id":"i","source":5`:           "l",
		`"cancel":true,` + ends:                                       "",
		`"cancel":false,"id":"i",` + ends:                             "",
	} {
		if r := request(t, "{"+in+"}"); r.CancelID != want || (r.Source.URL == "") != (want != "") {
			t.Errorf("%s: got %+v", in, r)
		}
	}
	if r := request(t, "{"+ends+"}"); r.Cancel || r.Source.URL != "http://s/a/" {
		t.Errorf("%+v", r)
	}
	if r := request(t, `{"cancel":true,`+ends+`}`); !r.Cancel {
		t.Errorf("%+v", r)
	}
	if r := request(t, `{"user_ctx":{"name":"x"},"owner":"x","_id":"x",`+ends+`}`); r.User.Name+r.Owner+r.DocID != "" {
		t.Errorf("a request says who sends it: %+v", r)
	}
}

// TestRefusals lists each mistake with its kind and the beginning of its message.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ in, kind, reason string }{
		{`"continuous":1,` + ends, "bad_request", "parameter `continuous` must be a boolean"},
		{`"continuous":null,` + ends, "bad_request", "parameter `continuous` must be a boolean"},
		{`"create_target":"true",` + ends, "bad_request", "parameter `create_target` must be a boolean"},
		{`"create_target_params":[],` + ends, "bad_request", "parameter `create_target_params` must be a JSON object"},
		{`"create_target_params":{"q":[1]},` + ends, "bad_request", "parameter `create_target_params` must have"},
		{`"create_target_params":{"q":{}},` + ends, "bad_request", "parameter `create_target_params` must have"},
		{`"create_target_params":{"q":null},` + ends, "bad_request", "parameter `create_target_params` must have"},
		{`"winning_revs_only":0,` + ends, "bad_request", "parameter `winning_revs_only` must be a boolean"},
		{`"use_checkpoints":"false",` + ends, "bad_request", "parameter `use_checkpoints` must be a boolean"},
		{`"use_bulk_get":"x",` + ends, "bad_request", "parameter `use_bulk_get` must be a boolean"},
		{`"worker_processes":0,` + ends, "bad_request",
			"parameter `worker_processes` must be an integer from 1 to 1000"},
		{`"worker_processes":-1,` + ends, "bad_request", "parameter `worker_processes`"},
		{`"worker_processes":1.0,` + ends, "bad_request", "parameter `worker_processes`"},
		{`"worker_processes":"a few",` + ends, "bad_request", "parameter `worker_processes`"},
		{`"worker_processes":null,` + ends, "bad_request", "parameter `worker_processes`"},
		{`"on_refusal":"ignore",` + ends, "bad_request",
			"parameter `on_refusal` must be \"skip\", \"fail\" or \"retry\""},
		{`"on_refusal":"",` + ends, "bad_request", "parameter `on_refusal`"},
		{`"on_refusal":null,` + ends, "bad_request", "parameter `on_refusal`"},
		{`"on_refusal":["fail"],` + ends, "bad_request", "parameter `on_refusal`"},
		{`"worker_batch_size":1e3,` + ends, "bad_request", "parameter `worker_batch_size`"},
		{`"worker_batch_size":99999999999999999999,` + ends, "bad_request", "parameter `worker_batch_size`"},
		{`"http_connections":10001,` + ends, "bad_request", "parameter `http_connections`"},
		{`"connection_timeout":0,` + ends, "bad_request", "parameter `connection_timeout`"},
		{`"connection_timeout":"",` + ends, "bad_request", "parameter `connection_timeout`"},
		{`"retries_per_request":-1,` + ends, "bad_request",
			"parameter `retries_per_request` must be an integer from 0"},
		{`"checkpoint_interval":86400001,` + ends, "bad_request", "parameter `checkpoint_interval`"},
		{`"weight":0,` + ends, "bad_request", "parameter `weight` must be an integer from 1 to 1000, and is 0"},
		{`"weight":1001,` + ends, "bad_request", "parameter `weight` must be an integer from 1 to 1000, and is 1001"},
		{`"weight":-1,` + ends, "bad_request", "parameter `weight` must be an integer from 1 to 1000, and is -1"},
		{`"weight":1e2,` + ends, "bad_request", "parameter `weight` must be an integer from 1 to 1000, and is 1e2"},
		{`"weight":100.0,` + ends, "bad_request", "parameter `weight` must be an integer from 1 to 1000, and is 100.0"},
		{`"weight":"1",` + ends, "bad_request", "parameter `weight` must be an integer from 1 to 1000, and is \"1\""},
		{`"weight":null,` + ends, "bad_request", "parameter `weight` must be an integer from 1 to 1000, and is null"},
		{`"weight":1` + strings.Repeat("0", 100) + `,` + ends, "bad_request",
			"parameter `weight` must be an integer from 1 to 1000, and is 1" + strings.Repeat("0", 39) + "..."},
		{`"since_seq":null,` + ends, "bad_request", "parameter `since_seq` must be a string, an array or an integer"},
		{`"since_seq":"now",` + ends, "bad_request", "parameter `since_seq` must be a string, an array or an integer " +
			"from 0, a sequence that the source gave, such as its update_seq, and is \"now\""},
		{`"since_seq":-1,` + ends, "bad_request", "parameter `since_seq` must be a string, an array or an integer " +
			"from 0, a sequence that the source gave, such as its update_seq, and is -1"},
		{`"since_seq":-0,` + ends, "bad_request", "parameter `since_seq` must be"},
		{`"since_seq":1.5,` + ends, "bad_request", "parameter `since_seq` must be"},
		{`"since_seq":1e3,` + ends, "bad_request", "parameter `since_seq` must be"},
		{`"since_seq":1e999,` + ends, "bad_request", "parameter `since_seq` must be"},
		{`"since_seq":"",` + ends, "bad_request", "parameter `since_seq` must be"},
		{`"since_seq":[1e999],` + ends, "bad_request", "parameter `since_seq` has a number"},
		{`"filter":"_vieww","query_params":{"view":"a/b"},` + ends, "bad_request",
			"parameter `filter` must be a filter function, ddocname/filtername, or one of _design, _doc_ids, " +
				"_view, and is \"_vieww\""},
		{`"filter":"_",` + ends, "bad_request", "parameter `filter` must be"},
		{`"filter":"_selector",` + ends, "bad_request", "parameter `filter` cannot be _selector"},
		{`"filter":"_design/x",` + ends, "bad_request", "parameter `filter` must be"},
		{`"query_params":{"a":[-1e400]},"filter":"a/b",` + ends, "bad_request",
			"parameter `query_params` has a number"},
		{`"since_seq":[1` + strings.Repeat("0", 1000) + `],` + ends, "bad_request",
			"parameter `since_seq` has a number of more than 1000 digits"},
		{`"query_params":42,` + ends, "bad_request", "parameter `query_params` must be an object"},
		{`"doc_ids":"a",` + ends, "bad_request", "parameter `doc_ids` must be an array"},
		{`"doc_ids":[1],` + ends, "bad_request", "parameter `doc_ids` must be an array of document ids"},
		{`"doc_ids":[""],` + ends, "bad_request", "parameter `doc_ids` must be an array of document ids"},
		{`"doc_ids":["%ff"],` + ends, "bad_request", "parameter `doc_ids` must be an array of document ids"},
		{`"doc_ids":[],"filter":"a/b",` + ends, "bad_request", "`doc_ids`,`filter`,`selector` are mutually exclusive"},
		{`"doc_ids":[],"selector":{},` + ends, "bad_request", "`doc_ids`,`filter`,`selector` are mutually exclusive"},
		{`"filter":"a/b","selector":{},` + ends, "bad_request", "`doc_ids`,`filter`,`selector` are mutually exclusive"},
		{`"filter":"a",` + ends, "invalid_replication", "Invalid filter. Must match `ddocname/filtername`."},
		{`"filter":"/b",` + ends, "invalid_replication", "Invalid filter."},
		{`"filter":"a/",` + ends, "invalid_replication", "Invalid filter."},
		{`"filter":5,` + ends, "bad_request", "parameter `filter` must be a string"},
		{`"filter":"_view",` + ends, "bad_request", "Invalid `view` parameter."},
		{`"filter":"a/b","query_params":{"q":1,"limit":5},` + ends, "bad_request",
			"parameter `query_params` cannot have `limit`: servers"},
		{`"filter":"a/b","query_params":{"include_docs":true},` + ends, "bad_request",
			"parameter `query_params` cannot have `include_docs`: servers"},
		{`"filter":"_design","query_params":{"Since":0},` + ends, "bad_request",
			"parameter `query_params` cannot have `Since`: servers"},
		{`"filter":"_view","query_params":{"view":"a/b","descending":false},` + ends, "bad_request",
			"parameter `query_params` cannot have `descending`"},
		{`"filter":"_view","query_params":{"view":"a/b/c"},` + ends, "bad_request", "Invalid `view` parameter."},
		{`"filter":"_view","query_params":{"view":1},` + ends, "bad_request", "Invalid `view` parameter."},
		{`"selector":[],` + ends, "bad_request", "parameter `selector` must be a JSON object"},
		{`"selector":{"a":{"$in":1}},` + ends, "bad_request",
			"parameter `selector` is invalid: Bad argument for operator $in"},
		{`"user_ctx":null,` + ends, "bad_request", "parameter `user_ctx` must"},
		{`"user_ctx":{"name":1},` + ends, "bad_request", "parameter `user_ctx` must"},
		{`"user_ctx":{"roles":"a"},` + ends, "bad_request", "parameter `user_ctx` must"},
		{`"user_ctx":{"roles":[1]},` + ends, "bad_request", "parameter `user_ctx` must"},
		{`"owner":1,` + ends, "bad_request", "parameter `owner` must be a string"},
		{`"_id":1,` + ends, "bad_request", "parameter `_id` must be a string"},
		{`"socket_options":"<}garbage]][",` + ends, "bad_request", "parameter `socket_options`: it is not a list"},
		{`"socket_options":[],` + ends, "bad_request", "parameter `socket_options` must be a string"},
		{`"socket_options":"[{potato, true}]",` + ends, "bad_request",
			"parameter `socket_options`: `potato` is not one of"},
		{`"socket_options":"[{nodelay, 1}]",` + ends, "bad_request",
			"parameter `socket_options`: `nodelay` must be true or false"},
		{`"socket_options":"[{sndbuf, 0}]",` + ends, "bad_request",
			"parameter `socket_options`: `sndbuf` must be an integer from 1"},
		{`"socket_options":"[{recbuf, 0}]",` + ends, "bad_request",
			"parameter `socket_options`: `recbuf` must be an integer from 1"},
		{`"socket_options":"[{priority, 7}]",` + ends, "bad_request",
			"parameter `socket_options`: `priority` must be an integer from 0 to 6"},
		{`"ibrowse_options":"[{prefer_ipv6, yes}]",` + ends, "not_supported", "`ibrowse_options` other than"},
		{`"ibrowse_options":"[{x, y}]",` + ends, "not_supported", "`ibrowse_options` other than"},
		{`"ibrowse_options":[],` + ends, "bad_request", "parameter `ibrowse_options` must be a string"},
		{`"ibrowse_options":"x",` + ends, "bad_request", "parameter `ibrowse_options`: it is not a list"},
		{`"target":"http://t/b"`, "invalid_replication", "Missing replicator database: `source`"},
		{`"source":"http://t/b","target":null`, "invalid_replication", "Missing replicator database: `target`"},
		{`"source":"localdb","target":"http://t"`, "invalid_replication", "local_endpoints_not_supported: `source`"},
		{`"source":"","target":"http://t"`, "invalid_replication", "local_endpoints_not_supported: `source`"},
		{`"source":"HTTP://t","target":"http://t"`, "invalid_replication",
			"endpoint has an invalid url: `source` must have one of the protocols http, https"},
		{`"source":5,"target":"http://t"`, "bad_request", "parameter `source` must be a URL or an object"},
		{`"source":[],"target":"http://t"`, "bad_request", "parameter `source` must be a URL or an object"},
		{`"target":{},"source":"http://t"`, "invalid_replication",
			"endpoint has an invalid url: `target` must have a string `url`"},
		{`"source":{"url":5},"target":"http://t"`, "invalid_replication",
			"endpoint has an invalid url: `source` must have a string"},
		{`"source":{"url":"abc"},"target":"http://t"`, "invalid_replication",
			"local_endpoints_not_supported: `source`"},
		{`"source":{"url":"httpx://a"},"target":"http://t"`, "invalid_replication",
			"endpoint has an invalid url: `source` must have one of the protocols http, https"},
		{`"source":"http://s/` + strings.Repeat("a", 1<<16) + `","target":"http://t"`, "invalid_replication",
			"endpoint has an invalid url: `source`: it is longer than 65536 bytes"},
		{`"source":"http://s","target":"http://t","proxy":"http://p/` + strings.Repeat("a", 1<<16) + `"`,
			"invalid_replication", "proxy has an invalid url: `proxy`: it is longer than 65536 bytes"},
		{`"source":"http://s","target":"http://t","user_ctx":{"name":"` + strings.Repeat("a", 5000) + `"}`,
			"bad_request", "parameter `user_ctx.name` is longer than 4096 bytes"},
		{`"source":"http://ho st","target":"http://t"`, "invalid_replication", "endpoint has an invalid url"},
		{`"source":{"url":"http://a","headers":[]},"target":"http://t"`, "bad_request",
			"parameter `source.headers` must be an object of strings"},
		{`"source":{"url":"http://a","headers":{"X":1}},"target":"http://t"`, "bad_request",
			"parameter `source.headers.X` must be a string"},
		{`"source":{"url":"http://a","headers":{"X":"a\r\nY: b"}},"target":"http://t"`, "bad_request",
			"parameter `source.headers.X` must be a string without control"},
		{`"source":{"url":"http://a","headers":{"X Y":"a"}},"target":"http://t"`, "bad_request",
			"parameter `source.headers` has a name that HTTP does not allow"},
		{`"source":{"url":"http://a","headers":{"hOst":"a b"}},"target":"http://t"`, "bad_request",
			"parameter `source.headers.hOst` must be the name of a host"},
		{`"source":{"url":"http://a","headers":{"":"a"}},"target":"http://t"`, "bad_request",
			"parameter `source.headers` has a name"},
		{`"source":{"url":"http://a","auth":null},"target":"http://t"`, "bad_request",
			"parameter `source.auth` must be an object"},
		{`"source":{"url":"http://a","auth":{"basic":[]}},"target":"http://t"`, "bad_request",
			"parameter `source.auth.basic` must"},
		{`"source":{"url":"http://a","auth":{"basic":{"username":"u","password":null}}},"target":"http://t"`,
			"bad_request", "parameter `source.auth.basic` must"},
		{`"source":{"url":"http://a","auth":{"iam":{}}},"target":"http://t"`, "not_supported",
			"`source.auth` other than `basic` and `bearer` is not supported yet"},
		{`"proxy":"http://p","source_proxy":"http://p",` + ends, "bad_request",
			"`proxy` is mutually exclusive with `source_proxy`"},
		{`"proxy":"http://p","target_proxy":"http://p",` + ends, "bad_request",
			"`proxy` is mutually exclusive with `target_proxy`"},
		{`"proxy":"ftp://p",` + ends, "invalid_replication",
			"proxy has an invalid url: `proxy` must have one of the protocols http, https, socks5"},
		{`"target_proxy":"p:3128",` + ends, "invalid_replication",
			"proxy has an invalid url: `target_proxy`: it has no scheme"},
		{`"source_proxy":null,` + ends, "invalid_replication", "Invalid proxy url: `source_proxy` must be a string"},
		{`"source":"http://s"} {`, "bad_request", "invalid UTF-8 JSON at byte"},
		{`"source`, "bad_request", "invalid UTF-8 JSON at byte"},
	} {
		r, err := parseDocument("{"+c.in+"}", DefaultConfig())
		mistake, is := errors.AsType[*Error](err)
		if r != nil || !is || string(mistake.Kind) != c.kind || !strings.HasPrefix(err.Error(), c.reason) {
			t.Errorf("%s: got %v %v, want %s %s", c.in, r, err, c.kind, c.reason)
		}
	}
	for in, reason := range map[string]string{
		`{"cancel":1}`:            "parameter `cancel` must be a boolean",
		`{"cancel":true}`:         "Missing replicator database",
		`{"cancel":true,"id":7}`:  "parameter `id` must be a string",
		`{"cancel":true,"id":""}`: "parameter `id` must be a string",
		`[]`:                      "Request body must be a JSON object",
		``:                        "invalid UTF-8 JSON",
	} {
		if _, err := ParseRequest([]byte(in), DefaultConfig()); err == nil || !strings.HasPrefix(err.Error(), reason) {
			t.Errorf("%s: got %v, want %s", in, err, reason)
		}
	}
}

func TestProtocolsAreConfigured(t *testing.T) {
	c := DefaultConfig()
	c.EndpointProtocols, c.ProxyProtocols, c.ValidSocketOptions = []string{"https"}, []string{"socks5"},
		[]string{"nodelay"}
	for in, ok := range map[string]bool{
		`{"source":"https://a","target":"https://b","proxy":"socks5://x","socket_options":"[{nodelay,true}]"}`: true,
		`{"source":"https://a","target":"http://b"}`:                                                           false,
		`{"source":"https://a","target":"https://b","proxy":"http://x"}`:                                       false,
		`{"source":"https://a","target":"https://b","socket_options":"[{keepalive,true}]"}`:                    false,
	} {
		if _, err := parseDocument(in, c); (err == nil) != ok {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestSocketOptions(t *testing.T) {
	for in, want := range map[string]SocketOptions{
		`[]`: {NoDelay: true}, " [ ] ": {NoDelay: true}, `[{keepalive,true}]`: {KeepAlive: true, NoDelay: true},
		`[{priority,3}]`: {NoDelay: true, Priority: 3}, `[{priority, 0}]`: {NoDelay: true},
		"[ {nodelay , false}\n, {keepalive, true},{keepalive,false} ]": {},
	} {
		if got, err := ParseSocketOptions(in, DefaultConfig().ValidSocketOptions); err != nil || got != want {
			t.Errorf("%s: %+v %v", in, got, err)
		}
	}
	for _, in := range []string{
		"", "[", "]", "[{]", "[{}]", "[{keepalive}]", "[{keepalive,}]", "[{,true}]", "[{keepalive,true}",
		"[{keepalive,true]", "[{keepalive,true},]", "[,{keepalive,true}]",
		"[{keepalive,true}{nodelay,true}]", "[{keepalive,true}]x", "{keepalive,true}", "[keepalive]",
		"[{'keepalive',true}]", "[{sndbuf,\"1\"}]",
		"[{sndbuf,-1}]", "[{sndbuf,99999999999999999999}]", "[{sndbuf,1073741825}]", "[{priority,-1}]",
		"[{priority,high}]", "[{keepalive,tru\xff}]", "[{keepalive,é}]",
		"[{keepalive", "[{keepalive,true",
	} {
		if got, err := ParseSocketOptions(in, DefaultConfig().ValidSocketOptions); err == nil {
			t.Errorf("%s: %+v", in, got)
		}
	}
}

// TestNeverPanics feeds the parsers what looks like a replication but is broken somewhere.
func TestNeverPanics(t *testing.T) {
	words := []string{`{`, `}`, `[`, `]`, `,`, `:`, `"source":`, `"target":`, `"http://u:p@h/d"`,
		`{"url":"http://h"}`, `"selector":`, `"doc_ids":`,
		`"filter":`, `"_view"`, `"query_params":`, `"auth":`, `"basic":`, `"headers":`, `"proxy":`,
		`"socket_options":`, `"[{nodelay,true}]"`, `"user_ctx":`,
		`"cancel":`, `"id":`, `1`, `1e999`, `null`, `true`, `"%"`, `""`, "\xff"}
	rapid.Check(t, func(t *rapid.T) {
		raw := strings.Join(rapid.SliceOf(rapid.SampledFrom(words)).Draw(t, "words"), "")
		request := func(raw string, c Config) (*Replication, error) { return ParseRequest([]byte(raw), c) }
		for _, parse := range []func(string, Config) (*Replication, error){parseDocument, request} {
			r, err := parse(raw, DefaultConfig())
			if _, is := errors.AsType[*Error](err); (r == nil) != is {
				t.Fatalf("%q: %v %v", raw, r, err)
			}
		}
	})
}

// TestLocalNames: a name is a database of the configured server, with the credentials that the document gives.
func TestLocalNames(t *testing.T) {
	c := DefaultConfig()
	c.Local = "https://couch:6984/prefix"
	for name, url := range map[string]string{
		"orders":        "https://couch:6984/prefix/orders/",
		"a/b+c$(d)":     "https://couch:6984/prefix/a%2Fb%2Bc%24%28d%29/",
		"_users":        "https://couch:6984/prefix/_users/",
		"http://other/": "http://other/",
	} {
		r, err := parseDocument(`{"source":"`+name+`","target":{"url":"`+name+`",
			"auth":{"basic":{"username":"u","password":"p"}}}}`, c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r.Source.URL != url || r.Target.URL != url || r.Target.Credentials.User.Reveal() != "u" {
			t.Errorf("%s: %+v and %+v, want %s", name, r.Source, r.Target, url)
		}
	}
	for _, name := range []string{"", "Orders", "a?b=c", "../a", "_all_dbs", "a b", "a#b", "@host/db", "1a"} {
		_, err := parseDocument(`{"source":"`+name+`","target":"http://t/b"}`, c)
		if err == nil || !strings.Contains(err.Error(), "the name of a database") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
