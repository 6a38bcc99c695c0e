package couch

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// redirects answers /db/... with a redirect to base, anything else as a database.
func redirects(status int, base string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if rest, is := strings.CutPrefix(r.RequestURI, "/db/"); is {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Location", base+rest)
			w.WriteHeader(status)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if string(body) == `{"a":["1-a"]}` && r.Method == "POST" {
			says(200, `{"a":{"missing":["1-a"]}}`)(w, r)
			return
		}
		says(200, `{"update_seq":1}`)(w, r)
	}
}

func TestRedirects(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		target := func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "GET" { // whatever is there must not be taken for an answer
				says(200, `{}`)(w, r)
				return
			}
			redirects(status, "http://target.test/new/")(w, r)
		}
		inRig(t, redirects(status, "/new/"), target, func(r *rig) {
			must[peer.Opened](r, peer.Open{})
			reply := r.do(peer.DiffRevs{Docs: []peer.DocRevs{{ID: "a", Revs: []string{"1-a"}}}})
			d, is := reply.Result.(peer.Diff)
			if is != (status != 303) || is != (len(d.Docs) == 1) || !is && reply.Failure.Status != 303 {
				t.Errorf("%d: %+v %v", status, d, reply.Failure)
			}
		})
	}
}

// TestRedirectsKeepQuery: a redirect that leaves out the query, as nginx's to $uri, keeps the request's, so that the
// feed has its filter and begins where it should. One with a query, or to another path, goes as it is.
func TestRedirectsKeepQuery(t *testing.T) {
	const feed = "/new/_changes?filter=_design&feed=normal&heartbeat=10000&style=all_docs&since=7"
	for _, c := range []struct {
		status         int
		location, want string
	}{
		{301, "/new/_changes", "source.test" + strings.Replace(feed, "?", "?token=t0k&", 1)},
		{307, "http://target.test/new/_changes", "target.test" + feed},
		{302, "/new/_changes?x=1", "source.test/new/_changes?x=1"},
		{302, "/login", "source.test/login"},
		{303, "/new/_changes", "source.test" + strings.Replace(feed, "?", "?token=t0k&", 1)},
	} {
		got := ""
		serve := func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/db/") {
				w.Header().Set("Location", c.location)
				w.WriteHeader(c.status)
				return
			}
			got = r.Host + r.RequestURI
			says(200, `{"results":[],"last_seq":7}`)(w, r)
		}
		inRig(t, serve, serve, func(r *rig) {
			must[peer.Changes](r, peer.ReadChanges{Since: "7", Limit: 5})
		}, func(rep *spec.Replication) {
			rep.Source.URL += "?token=t0k"
			rep.Filter = spec.Filter{Kind: spec.BuiltinFilter, Name: "_design"}
		})
		if got != c.want {
			t.Errorf("%d to %s: asked %s, want %s", c.status, c.location, got, c.want)
		}
	}
}

// TestRedirectsToURI: through a proxy that redirects to nginx's $uri, which has neither query nor escapes, requests
// come with their query, also those whose query is the token of the endpoint's URL alone.
func TestRedirectsToURI(t *testing.T) {
	const id = "anna (home)@a.test"
	var asked []string
	uri := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/db/") {
			w.Header()["Location"] = []string{"/new/" + strings.TrimPrefix(r.URL.Path, "/db/")}
			w.WriteHeader(http.StatusMovedPermanently)
			return
		}
		asked = append(asked, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery)
		switch {
		case r.Method == http.MethodPut:
			says(201, `{"ok":true}`)(w, r)
		case strings.HasSuffix(r.URL.Path, id):
			says(200, `[{"ok":{"_id":"`+id+`","_rev":"1-a"}}]`)(w, r)
		default:
			says(200, `{"update_seq":1}`)(w, r)
		}
	}
	inRig(t, uri, uri, func(r *rig) {
		must[peer.Opened](r, peer.Open{})
		must[peer.Local](r, peer.GetLocal{ID: "x"})
		op := peer.CopyDoc{ID: id, Revs: []string{"1-a"}}
		if f := r.do(op).Failure; f == nil || f.Kind != peer.Broken { // which the core retries
			t.Errorf("a document on its way: %v", f)
		}
		must[peer.Copied](r, op)
	}, func(rep *spec.Replication) { rep.Source.URL += "?token=t0k" })
	get := "GET /new/" + id + "?token=t0k&open_revs=%5B%221-a%22%5D&revs=true&latest=true"
	put := "PUT /new/" + id + "?new_edits=false"
	want := []string{"GET /new/?token=t0k", "GET /new/_local/x?token=t0k", get, get, put}
	if !slices.Equal(asked, want) {
		t.Errorf("asked\n%s", strings.Join(asked, "\n"))
	}
}

// TestRedirectsKeepConnections: a redirect comes with a page for people, and its connection is used again.
func TestRedirectsKeepConnections(t *testing.T) {
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/db/") {
			http.Redirect(w, r, "/new/", http.StatusMovedPermanently)
			return
		}
		says(200, `{"update_seq":1}`)(w, r)
	}, nil, func(r *rig) {
		for range 3 {
			must[peer.Opened](r, peer.Open{})
		}
		if r.net.dials != 1 {
			t.Errorf("%d connections for one request after the other", r.net.dials)
		}
	})
}

func TestRedirectsEnd(t *testing.T) {
	hops := 0
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		hops++
		http.Redirect(w, r, "/db/", http.StatusFound)
	}, redirects(302, ""), func(r *rig) {
		if f := r.do(peer.Open{}).Failure; f == nil || f.Kind != peer.Malformed || hops != maxHops {
			t.Errorf("%v after %d hops", f, hops)
		}
		if f := r.do(peer.Open{Side: peer.Target}).Failure; f == nil || f.Kind != peer.Status ||
			f.Status != 302 {
			t.Errorf("redirect to nowhere: %v", f)
		}
	})
}

// TestRedirectsAndCredentials: credentials go to the same name only, on the same port or from http to https.
func TestRedirectsAndCredentials(t *testing.T) {
	e := &endpoint{base: &url.URL{Scheme: "http", Host: "h.test", Path: "/db/"}}
	for to, stranger := range map[string]bool{
		"http://h.test/x": false, "http://H.TEST:80/x": false, "https://h.test/x": false,
		"https://h.test:6984/x": false,
		"http://h.test:81/x":    true, "http://other.test/x": true, "https://other.test/x": true,
		"http://sub.h.test/x": true,
	} {
		u, _ := url.Parse(to)
		if e.stranger(u) != stranger {
			t.Errorf("%s: %v", to, !stranger)
		}
	}
	e.base.Scheme = "https"
	if u, _ := url.Parse("http://h.test/x"); !e.stranger(u) {
		t.Error("back to http")
	}
	for location, want := range map[string]string{"http://target.test/new/": "",
		"http://source.test/new/": "Basic YW5uYTpzM2NyM3QrcGEvc3M="} {
		var seen []string
		note := func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/new/") {
				seen = append(seen, r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"))
			}
			redirects(302, location)(w, r)
		}
		inRig(t, note, note, func(r *rig) { must[peer.Opened](r, peer.Open{}) })
		if !slices.Equal(seen, []string{want}) {
			t.Errorf("%s saw %q", location, seen)
		}
	}
}

// TestRedirectsAndHost: a Host that the user names is the server's own, and another server is asked by its own name.
func TestRedirectsAndHost(t *testing.T) {
	for location, want := range map[string]string{
		"http://target.test/new/": "target.test", "http://source.test/new/": "named.test",
	} {
		last := ""
		serve := func(w http.ResponseWriter, r *http.Request) {
			last = r.Host
			redirects(302, location)(w, r)
		}
		inRig(t, serve, serve, func(r *rig) { must[peer.Opened](r, peer.Open{}) }, func(rep *spec.Replication) {
			rep.Source.Headers = []spec.Header{{Name: "Host", Value: spec.Hide("named.test")}}
		})
		if last != want {
			t.Errorf("to %s: asked %s, want %s", location, last, want)
		}
	}
}

// TestCopyDocRedirected: a streamed document cannot be sent twice, but the next attempt goes to where the
// redirect led.
func TestCopyDocRedirected(t *testing.T) {
	moved := redirects(307, "http://target.test/new/")
	target := &writes{t: t}
	inRig(t, saysMixed(new(mixed).part(docWith("1-a")).end()), func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.RequestURI, "/new/") && r.Method == "PUT" {
			target.serve(w, r)
			return
		}
		if r.Method == "GET" {
			hijack(w, "").Close()
			return
		}
		moved(w, r)
	}, func(r *rig) {
		op := peer.CopyDoc{ID: "doc", Revs: []string{"1-a"}}
		if f := r.do(op).Failure; f == nil || f.Kind != peer.Broken || f.Status != 307 ||
			f.Side != peer.Target {
			t.Errorf("%v", f)
		}
		r.do(peer.Open{Side: peer.Target}) // breaks off, at the configured base
		must[peer.Copied](r, op)
		if len(target.list) != 1 || target.list[0].uri != "/new/doc?new_edits=false" {
			t.Errorf("%+v", target.list)
		}
	})
}

// TestCopyDocBrokenAfterRedirect: after a broken connection the next attempt starts at the configured URL
// again, and the redirect there is no reason to stop trying.
func TestCopyDocBrokenAfterRedirect(t *testing.T) {
	moved, puts := redirects(301, "http://target.test/new/"), 0
	inRig(t, saysMixed(new(mixed).part(docWith("1-a")).end()), func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.RequestURI, "/new/") && r.Method == "PUT" {
			_, _ = io.Copy(io.Discard, r.Body)
			if puts++; puts == 1 {
				hijack(w, "").Close()
				return
			}
			says(201, `{"ok":true}`)(w, r)
			return
		}
		moved(w, r)
	}, func(r *rig) {
		must[peer.Opened](r, peer.Open{Side: peer.Target})
		op := peer.CopyDoc{ID: "doc", Revs: []string{"1-a"}}
		for range 2 {
			if f := r.do(op).Failure; f == nil || f.Kind != peer.Broken || f.Side != peer.Target {
				t.Errorf("%v", f)
			}
		}
		must[peer.Copied](r, op)
	})
}

// TestCopyDocRedirectedToStranger: another server does not get the token in the URL unless the redirect
// itself has it.
func TestCopyDocRedirectedToStranger(t *testing.T) {
	for _, c := range []struct{ location, want string }{
		{"http://source.test/new/doc", "new_edits=false"},
		{"http://source.test/new/doc?new_edits=false", "new_edits=false"},
		{"http://source.test/new/doc?token=t0k&new_edits=false", "token=t0k&new_edits=false"},
		{"/new/doc", "token=t0k&new_edits=false"},
	} {
		got := ""
		serve := func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			switch {
			case r.Method == "GET":
				saysMixed(new(mixed).part(docWith("1-a")).end())(w, r)
			case strings.HasPrefix(r.URL.Path, "/new/"):
				got = r.URL.RawQuery
				says(201, `{"ok":true}`)(w, r)
			default:
				w.Header().Set("Location", c.location)
				w.WriteHeader(http.StatusTemporaryRedirect)
			}
		}
		inRig(t, serve, serve, func(r *rig) {
			op := peer.CopyDoc{ID: "doc", Revs: []string{"1-a"}}
			r.do(op)
			must[peer.Copied](r, op)
		}, func(rep *spec.Replication) { rep.Target.URL += "?token=t0k" })
		if got != c.want {
			t.Errorf("to %s: sent %s, want %s", c.location, got, c.want)
		}
	}
}

// TestCopyDocRedirectedAway: a redirect that leads to no base is a failure for good: another attempt is of no
// use.
func TestCopyDocRedirectedAway(t *testing.T) {
	inRig(t, saysMixed(new(mixed).part(docWith("1-a")).end()), func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Location", "/login?next=doc")
		w.WriteHeader(http.StatusFound)
	}, func(r *rig) {
		f := r.do(peer.CopyDoc{ID: "doc", Revs: []string{"1-a"}}).Failure
		if f == nil || f.Kind != peer.Status || f.Status != 302 || f.Side != peer.Target {
			t.Errorf("%v", f)
		}
	})
}
