package integration

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// planted begins every secret that TestFilesTellNoSecret gives away.
const planted = "hunter2"

// TestFilesTellNoSecret uses a service with all kinds of credentials, then looks for them as strings(1) would: in the
// store while it is written, after a kill, after an orderly end and after a start, in the local configuration, the log,
// the audit lines and the recording. Without encryption the same search finds them.
func TestFilesTellNoSecret(t *testing.T) {
	alongside(t)
	for _, encrypt := range []bool{true, false} {
		t.Run(fmt.Sprint("encrypt=", encrypt), func(t *testing.T) {
			alongside(t)
			s := newSecretive(t, encrypt)
			s.plantUsers()
			s.plantJobs()
			s.search("while it runs")
			s.relay.kill()
			s.search("after a kill")
			s.serve("--record", filepath.Join(s.dir, "second.log"))
			s.settle()
			check(s.relay.cmd.Process.Signal(syscall.SIGTERM))
			_ = s.relay.cmd.Wait()
			s.search("after its end")
			for _, file := range s.found {
				inStore := strings.HasPrefix(file, "data/")
				if encrypt || !inStore { // these never have any
					t.Errorf("a secret is in %s", file)
				}
			}
			if !encrypt && len(s.found) == 0 {
				t.Error("the search finds nothing in a store that is not encrypted")
			}
		})
	}
}

// secretive is a service that is told secrets.
type secretive struct {
	*testing.T
	relay  *relay
	dir    string // all that is written
	config string // outside of dir, since it has the first admin's password and the keys of tokens
	box    string // URL of databases
	port   string
	hidden []string // what must not be found, besides what is planted
	found  []string // files, with the moment
}

func newSecretive(t *testing.T, encrypt bool) *secretive {
	s := &secretive{T: t, dir: t.TempDir(), config: filepath.Join(t.TempDir(), "secret.ini"), port: freePort()}
	s.box = "http://127.0.0.1:" + s.port + "/"
	check(os.WriteFile(s.config, fmt.Appendf(nil, "[admins]\nadm = hunter2first\n[log]\nlevel = debug\n"+
		"[jwt_keys]\nhmac:_default = %s\n[secrets]\nencrypt = %t\n[audit]\nfile = %s\n",
		base64.StdEncoding.EncodeToString([]byte("hunter2jwt")), encrypt, filepath.Join(s.dir, "audit.log")), 0o600))
	s.serve("--record", filepath.Join(s.dir, "first.log"))
	return s
}

func (s *secretive) serve(args ...string) {
	s.relay = serve(s.T, s.dir, append([]string{"--config", s.config, "--sandbox", s.port,
		"--local-config", filepath.Join(s.dir, "local.ini")}, args...)...)
	s.relay.url = strings.Replace(s.relay.url, "://", "://adm:hunter2first@", 1)
}

// as is the URL of a path for another user, or for none.
func (s *secretive) as(user *url.Userinfo, path string) string {
	u, err := url.Parse(s.relay.url + path)
	check(err)
	u.User = user
	return u.String()
}

// plantUsers makes an admin and a user, who log in in every way, also in vain.
func (s *secretive) plantUsers() {
	want(s.T, 200, "PUT", s.relay.url+"_node/_local/_config/admins/second", "hunter2admin")
	want(s.T, 201, "PUT", s.relay.url+"_users", nil)
	ann := s.relay.url + "_users/org.couchdb.user:ann"
	want(s.T, 201, "PUT", ann, object{"name": "ann", "type": "user", "roles": []string{}, "password": "hunter2user"})
	s.hidden = append(s.hidden, fmt.Sprint(want(s.T, 200, "GET", ann, nil)["derived_key"]))
	for user, status := range map[*url.Userinfo]int{
		url.UserPassword("ann", "hunter2user"): 200, url.UserPassword("second", "hunter2admin"): 200,
		url.UserPassword("ann", "hunter2wrong"): 401, url.UserPassword("nobody", "hunter2nobody"): 401,
	} {
		want(s.T, status, "GET", s.as(user, "_session"), nil)
	}
	a := send(s.T, "POST", s.as(nil, "_session"), object{"name": "ann", "password": "hunter2user"})
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	if got := send(s.T, "GET", s.as(nil, "_session"), nil, "Cookie", cookie); !within(object{"name": "ann"},
		got.object["userCtx"]) {
		s.Fatalf("%s", got.raw)
	}
	claims := jwt.MapClaims{"sub": "token", "exp": 1 << 40}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("hunter2jwt"))
	check(err)
	for text, status := range map[string]int{token: 200, token + "x": 401, "hunter2token": 400} {
		a := send(s.T, "POST", s.as(nil, "_replicate"), object{"cancel": true, "id": "x"},
			"Authorization", "Bearer "+text)
		if a.status != status && (status != 200 || a.status != http.StatusNotFound) {
			s.Fatalf("%d %s", a.status, a.raw)
		}
	}
	s.hidden = append(s.hidden, strings.TrimPrefix(cookie, "AuthSession="), token)
}

// plantJobs writes documents and requests with secrets in each place that has any, some of which fail.
func (s *secretive) plantJobs() {
	await(s.T, "the example", func() bool { return want(s.T, 200, "GET", s.box+"example", nil)["doc_count"] == 1000.0 })
	with := func(user string) string { return strings.Replace(s.box, "://", "://u:hunter2"+user+"@", 1) }
	basic := object{"basic": object{"username": "u", "password": "hunter2basic"}}
	refused := strings.TrimSuffix(s.box, s.port+"/") + "1/" // where nothing listens
	for id, body := range map[string]object{
		"copy": {"source": with("copy") + "example", "target": with("target") + "copy", "create_target": true},
		"follow": {"source": with("follow") + "example", "target": with("t") + "f", "create_target": true,
			"continuous": true},
		"auth": {"source": object{"url": s.box + "example", "auth": basic, "headers": object{"X-Key": "hunter2header"}},
			"target": with("auth") + "auth", "create_target": true},
		"bearer": {"source": object{"url": s.box + "example", "auth": object{"bearer": "hunter2bearer"}},
			"target": s.box + "none"},
		"away": {"source": strings.Replace(refused, "://", "://u:hunter2away@", 1) + "a?token=hunter2query",
			"target": s.box + "b", "create_target": true},
		"proxy": {"source": s.box + "example", "target": s.box + "p",
			"source_proxy": "http://u:hunter2proxy@127.0.0.1:1/"},
		"over": {"source": with("over") + "x", "target": s.box + "y", "_replication_state": "failed",
			"_replication_state_reason": "hunter2reason"},
		"refused": {"source": s.box + "example", "target": s.relay.url + "_users"},
	} {
		want(s.T, 201, "PUT", s.relay.url+"_replicator/"+id, body)
	}
	want(s.T, 200, "POST", s.relay.url+"_replicate",
		object{"source": with("request") + "example", "target": with("r") + "request", "create_target": true})
	want(s.T, 500, "POST", s.relay.url+"_replicate", object{
		"source": refused + "a?t=hunter2query", "target": s.box + "b", "create_target": true})
	s.settle()
	failures := want(s.T, 200, "GET", s.relay.url+"_scheduler/docs/_replicator/refused", nil)
	if n := failures["info"].(object)["doc_write_failures"]; n != 1000.0 {
		s.Errorf("%v documents are refused: %v", n, failures)
	}
	// A deletion that keeps its body, and a conflict.
	doc := want(s.T, 200, "GET", s.relay.url+"_replicator/away", nil)
	doc["_deleted"] = true
	want(s.T, 200, "PUT", s.relay.url+"_replicator/away", doc)
	write(s.T, s.relay.url+"_replicator", false, object{"_id": "copy", "_rev": "1-abc",
		"source": with("conflict") + "example", "target": s.box + "copy", "owner": "adm"})
}

// settle waits until the jobs are as far as they get.
func (s *secretive) settle() {
	for id, states := range map[string][]string{
		"copy": {"completed"}, "auth": {"completed"}, "refused": {"completed"}, "follow": {"running"},
		"bearer": {"crashing", "failed"}, "proxy": {"crashing"}, "over": {"failed"},
	} {
		await(s.T, id, func() bool { return slices.Contains(states, s.relay.docState(s.T, id)) })
	}
}

// search looks into all files that are there, and into what the service has written to its standard error.
func (s *secretive) search(when string) {
	note := func(name string, text []byte) {
		if s.shows(text) {
			s.found = append(s.found, name+" "+when)
		}
	}
	note("log", []byte(s.relay.out.String()))
	files := 0
	err := filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // the store may have removed it
		}
		name, err := filepath.Rel(s.dir, path)
		check(err)
		text, err := os.ReadFile(path)
		if err == nil {
			files++
			note(name, text)
		}
		return nil
	})
	check(err)
	for _, name := range []string{"audit.log", "first.log", "local.ini"} {
		if text, err := os.ReadFile(filepath.Join(s.dir, name)); err != nil || len(text) == 0 {
			s.Errorf("%s %s: %v", name, when, err)
		}
	}
	s.Logf("%d files %s", files, when)
}

// shows reports whether a text has a secret, in clear or in base64.
func (s *secretive) shows(text []byte) bool {
	for _, secret := range append([]string{planted}, s.hidden...) {
		if bytes.Contains(text, []byte(secret)) {
			return true
		}
	}
	for shift := range 3 { // what base64 makes of it depends on where it stands
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + planted + "xxx"))
		if bytes.Contains(text, []byte(encoded[4:10])) {
			return true
		}
	}
	return false
}
