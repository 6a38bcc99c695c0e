package session

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/instant"

	"pgregory.net/rapid"
)

var (
	both = Settings{Plugins: []Plugin{Cookie, Basic}, Refresh: 550 * time.Second, MinUpdate: 5 * time.Second}
	sets = func(value string, maxAge int) *SetCookie { return &SetCookie{value, maxAge} }
)

// at is a moment some seconds after the start.
func at(seconds int) instant.Time { return instant.Seconds(int64(seconds)) }

// signedIn returns a machine with the cookie a, since the start.
func signedIn(t *testing.T, maxAge int) *Machine {
	t.Helper()
	m := New(both, true)
	if p := m.Next(0); p != (Pass{Action: Ask}) {
		t.Fatalf("%+v", p)
	}
	if r := m.Asked(0, Answer{Status: 200, Cookie: sets("a", maxAge)}); r != Done {
		t.Fatal(r)
	}
	return m
}

func TestPlugins(t *testing.T) {
	for _, c := range []struct {
		plugins []Plugin
		user    bool
		want    Pass
	}{
		{nil, true, Pass{Basic: true}}, {nil, false, Pass{}},
		{[]Plugin{Basic}, true, Pass{Basic: true}}, {[]Plugin{Basic, Cookie}, true, Pass{Basic: true}},
		{[]Plugin{Cookie, Basic}, true, Pass{Action: Ask}}, {[]Plugin{Cookie, Basic}, false, Pass{}},
		{[]Plugin{Cookie}, true, Pass{Action: Ask}}, {[]Plugin{Cookie}, false, Pass{Action: Refuse}},
	} {
		if got := New(Settings{Plugins: c.plugins}, c.user).Next(0); got != c.want {
			t.Errorf("%v, user %t: %+v, want %+v", c.plugins, c.user, got, c.want)
		}
	}
}

// TestAsked has the answers to the first request for a session, and what comes after them.
func TestAsked(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer Answer
		want   Result
		next   Pass
	}{
		{"a cookie", Answer{Status: 200, Cookie: sets("a", 0)}, Done, Pass{Cookie: "a", Epoch: 1}},
		{"no cookie", Answer{Status: 200}, NoCookie, Pass{Action: Ask}},
		{"no sessions", Answer{Status: 404}, Done, Pass{Basic: true}},
		{"no such method", Answer{Status: 405}, Done, Pass{Basic: true}},
		{"nothing of the kind", Answer{Status: 501}, Done, Pass{Basic: true}},
		{"a valid user is required", Answer{Status: 401, Challenged: true}, Done, Pass{Action: Ask, Basic: true}},
		{"another password", Answer{Status: 401}, Unauthorized, Pass{Action: Ask}},
		{"not past a proxy", Answer{Status: 403}, Done, Pass{Basic: true}},
		{"not this user", Answer{Status: 403, Worded: true}, Forbidden, Pass{Action: Ask}},
		{"trouble", Answer{Status: 500}, Unexpected, Pass{Action: Ask}},
		{"a page", Answer{Status: 302}, Unexpected, Pass{Action: Ask}},
		{"silence", Answer{}, Lost, Pass{Action: Ask}},
	} {
		m := New(both, true)
		m.Next(0)
		if p := m.Next(0); p.Action != Wait {
			t.Errorf("%s: two ask at once: %+v", c.name, p)
		}
		if got := m.Asked(0, c.answer); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if got := m.Next(0); got != c.next {
			t.Errorf("%s: %+v comes next, want %+v", c.name, got, c.next)
		}
	}
}

// TestProof: basic authentication is sent with what asks for a session once the server demands it, and a second refusal
// is one.
func TestProof(t *testing.T) {
	m := New(both, true)
	m.Next(0)
	m.Asked(0, Answer{Status: 401, Challenged: true})
	m.Next(0)
	if got := m.Asked(0, Answer{Status: 401, Challenged: true}); got != Unauthorized {
		t.Errorf("%v", got)
	}
	m.Next(0)
	m.Asked(0, Answer{Status: 200, Cookie: sets("a", 0)})
	if p := m.Next(at(550)); p != (Pass{Action: Ask, Basic: true}) {
		t.Errorf("the renewal has no proof: %+v", p)
	}
}

// TestOnlySessions: a server without sessions is no server for those who want nothing else.
func TestOnlySessions(t *testing.T) {
	m := New(Settings{Plugins: []Plugin{Cookie}}, true)
	m.Next(0)
	m.Asked(0, Answer{Status: 404})
	if p := m.Next(0); p.Action != Refuse {
		t.Errorf("%+v", p)
	}
}

// TestSessionsAreGone: a server has no sessions any more when one is to be renewed. What it refuses meanwhile is
// sent again, as the plugin behind it says.
func TestSessionsAreGone(t *testing.T) {
	m := signedIn(t, 0)
	p := m.Next(at(549))
	m.Next(at(550))
	m.Asked(at(551), Answer{Status: 404})
	if !m.Answered(at(552), p, 401, nil, 0) || m.Next(at(552)) != (Pass{Basic: true}) {
		t.Error("a request that was under way is not sent again")
	}
}

// TestRenewal: at nine tenths of Max-Age, or after Refresh where the server gives none that makes sense.
func TestRenewal(t *testing.T) {
	for maxAge, seconds := range map[int]int{600: 540, 1: 1, 11: 9, 0: 550, -1: 550, 1 << 60: 365 * 86400 * 9 / 10} {
		m := signedIn(t, maxAge)
		if p := m.Next(at(seconds) - 1); p != (Pass{Cookie: "a", Epoch: 1}) {
			t.Errorf("Max-Age %d, before %d s: %+v", maxAge, seconds, p)
		}
		if p := m.Next(at(seconds)); p != (Pass{Action: Ask}) {
			t.Errorf("Max-Age %d, after %d s: %+v", maxAge, seconds, p)
		}
	}
}

// TestReplaced: a cookie that comes with a success counts from then on; the same one changes nothing.
func TestReplaced(t *testing.T) {
	m := signedIn(t, 100)
	p := m.Next(at(50))
	again := m.Answered(at(50), p, 200, sets("a", 100), 0)
	if p := m.Next(at(90)); p.Action != Ask || again {
		t.Errorf("the same cookie put the renewal off: %+v", p)
	}
	m = signedIn(t, 100)
	for _, status := range []int{199, 300, 302, 404, 500} {
		m.Answered(at(50), p, status, sets("x", 100), 0)
	}
	m.Answered(at(50), p, 299, sets("b", 100), 0)
	if m.Answered(at(51), p, 200, sets("c", 100), 0) { // an answer to the cookie of before
		t.Error("a request that got through was sent again")
	}
	if p := m.Next(at(90)); p != (Pass{Cookie: "b", Epoch: 2}) {
		t.Errorf("%+v", p)
	}
}

// TestRefusals: what follows a 401 or 403 depends on the cookie with which the request was sent, and on its age.
func TestRefusals(t *testing.T) {
	for _, status := range []int{401, 403} {
		m := signedIn(t, 0)
		p := m.Next(at(4))
		if m.Answered(at(4), p, status, nil, 0) {
			t.Error("a young cookie was refused, and the request sent again")
		}
		m.Answered(at(5)-1, p, status, nil, 0) // which puts nothing off
		if m.Next(at(8)).Action != Send || m.Next(at(9)).Action != Ask {
			t.Error("a young cookie that was refused is not renewed 5 s later")
		}
		m.Asked(at(9), Answer{Status: 200, Cookie: sets("b", 0)})
		if !m.Answered(at(10), p, status, nil, 0) || m.Next(at(10)) != (Pass{Cookie: "b", Epoch: 2}) {
			t.Error("an older cookie was refused, and the request not sent again")
		}
		p = m.Next(at(20))
		if !m.Answered(at(20), p, status, nil, 0) || m.Next(at(20)).Action != Ask {
			t.Error("an old cookie was refused, and not renewed")
		}
		if m.Answered(at(20), p, status, nil, maxAgain) {
			t.Error("a request was sent again for ever")
		}
		m = signedIn(t, 0)
		if !m.Answered(at(5), m.Next(at(5)), status, nil, 0) || m.Next(at(5)).Action != Ask {
			t.Error("a cookie as old as MinUpdate was refused, and not renewed")
		}
		m = signedIn(t, 0)
		m.Answered(at(20), m.Next(at(20)), 200, sets("b", 0), 0)
		if m.Answered(at(21), m.Next(at(21)), status, nil, 0) || m.Next(at(24)).Action != Send {
			t.Error("a cookie that has just replaced an old one was refused, and renewed at once")
		}
	}
	for _, status := range []int{0, 100, 302, 400, 404, 407, 409, 413, 429, 500, 503} {
		m := signedIn(t, 0)
		p := m.Next(at(20))
		if m.Answered(at(20), p, status, nil, 0) || m.Next(at(20)) != p {
			t.Errorf("%d was taken for a refusal of the cookie", status)
		}
	}
	m := New(both, false)
	if m.Answered(0, m.Next(0), 401, nil, 0) {
		t.Error("a request without a session was sent again")
	}
	m = signedIn(t, 0)
	p := m.Next(at(20))
	m.Answered(at(20), Pass{Basic: true, Epoch: p.Epoch}, 401, nil, 0)
	m.Answered(at(20), Pass{Basic: true, Epoch: p.Epoch}, 200, sets("b", 0), 0)
	if m.Next(at(20)) != p {
		t.Error("an answer to a request without a session says something of that")
	}
}

// server is a simple twin of a server with sessions: it knows the cookies that it gave and has not forgotten.
type server struct {
	made  int
	valid map[string]bool
}

func (s *server) cookie() *SetCookie {
	s.made++
	value := fmt.Sprint("c", s.made)
	s.valid = map[string]bool{value: true}
	return sets(value, 0)
}

// TestEveryRequestGetsThrough: whatever the server forgets and however requests overtake each other, one asks for a
// session at a time, no cookie is used that is due, and a request that is sent alone gets through.
func TestEveryRequestGetsThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, s := New(both, true), &server{}
		now := instant.Time(0)
		var sent []Pass
		asking := false
		look := func() Pass {
			p := m.Next(now)
			switch {
			case p.Action == Ask && asking, p.Action == Wait && !asking, p.Action == Send && (p.Cookie == "" || asking):
				t.Fatalf("%+v while asking is %t", p, asking)
			}
			return p
		}
		ask := func() {
			asking = false
			a := Answer{Status: 200}
			if rapid.Bool().Draw(t, "fails") {
				a.Status = rapid.SampledFrom([]int{0, 500}).Draw(t, "status")
			} else {
				a.Cookie = s.cookie()
			}
			m.Asked(now, a)
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "pause")) * time.Second)
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				if p := look(); p.Action == Send {
					sent = append(sent, p)
				} else if p.Action == Ask {
					asking = true
				}
			case 1:
				if asking {
					ask()
				}
			case 2:
				if len(sent) > 0 {
					status := 401
					if s.valid[sent[0].Cookie] {
						status = 200
					}
					m.Answered(now, sent[0], status, nil, rapid.IntRange(0, 2).Draw(t, "again"))
					sent = sent[1:]
				}
			case 3:
				s.valid = nil // it was restarted with another secret
			}
		}
		for asking {
			now = now.Add(time.Second)
			asking = false
			m.Asked(now, Answer{Status: 200, Cookie: s.cookie()})
		}
		now = now.Add(both.MinUpdate)
		for again := 0; ; {
			switch p := look(); {
			case p.Action == Ask:
				m.Asked(now, Answer{Status: 200, Cookie: s.cookie()})
			case s.valid[p.Cookie]:
				return
			case !m.Answered(now, p, 401, nil, again):
				t.Fatalf("a request did not get through: %+v of %+v", p, m)
			default:
				again++
			}
		}
	})
}
