package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"couchrelay/adapters/config"
)

// printed returns what the command prints.
func printed(t *testing.T, c configCommand, environ ...string) (out, problems string) {
	t.Helper()
	var to, told strings.Builder
	if err := c.print(&to, &told, environ); err != nil {
		t.Fatal(err)
	}
	return to.String(), told.String()
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "couchrelay.ini")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPrintedPasswords: the line of a password is commented out, so that a service that reads the printed configuration
// does not take the mask for a password.
func TestPrintedPasswords(t *testing.T) {
	file := writeFile(t, "[chttpd_auth]\nsecret = s3cret\n[ssl]\npassword = s3cret\n[replicator]\npassword = s3cret\n"+
		"[tls a]\npassword = s3cret\n[follow x]\nurl = http://u:s3cret@h:1\ndatabases = d\n"+
		"[follow y]\nurl = http://h:2\ndatabases = d\nauth = {\"bearer\": \"s3cret\"}\n")
	out, _ := printed(t, configCommand{Config: []string{file}})
	if strings.Contains(out, "s3cret") || strings.Count(out, "*****\n")+strings.Count(out, ":*****@") != 6 {
		t.Error(out)
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "*****") && line[0] != ';' {
			t.Errorf("a line sets a password to its mask: %s", line)
		}
	}
}

type diskFull struct{}

func (diskFull) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestConfigurationThatIsNotWritten: a configuration that could not be printed whole is an error, since it may be on
// its way into a file.
func TestConfigurationThatIsNotWritten(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "replicator/max_jobs"} {
		if err := (&configCommand{Key: key}).print(diskFull{}, io.Discard, nil); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// TestPrintedConfigurationIsAFile: what is printed, read again, sets every key to the printed value.
func TestPrintedConfigurationIsAFile(t *testing.T) {
	odd := writeFile(t, "[replicator]\ninterval = 1500\ncert_file = /c\nkey_file = /k\n"+
		"[replicator.shares]\nuser:b = 7\n[couchdb]\nuuid = abc\nmaintenance_mode = nolb\n"+
		"[node_types]\nreplication = false\n")
	for name, files := range map[string][]string{"defaults": nil, "in force": {odd}} {
		want, err := config.Load(files...)
		if err != nil {
			t.Fatal(err)
		}
		out, problems := printed(t, configCommand{Config: files})
		got, err := config.Load(writeFile(t, out))
		if err != nil || !reflect.DeepEqual(got, want) || problems != "" {
			t.Errorf("%s: %v %s\ngot  %+v\nwant %+v", name, err, problems, got, want)
		}
	}
}

func TestConfigPrintsValuesInForce(t *testing.T) {
	file := writeFile(t, "[admins]\nadm = s3cret\n[replicator]\nmax_jobs = 7\n[fabric]\na = b\n")
	out, problems := printed(t, configCommand{Config: []string{file}}, "COUCHDB_NODE_TYPE_REPLICATION=false")
	for _, line := range []string{
		"; It takes a whole number from 0 to 1000000. Default: 500.\nmax_jobs = 7\n",
		"\n;adm =\n", "\nreplication = false\n", "\n;uuid =\n",
	} {
		if !strings.Contains(out, line) {
			t.Errorf("%q is not in\n%s", line, out)
		}
	}
	if strings.Contains(out, "s3cret") || problems != "couchrelay: skipped, for a database server: [fabric]\n" {
		t.Errorf("%s%s", out, problems)
	}
}

// TestConfigTellsWhatRequestsSet: it is in force, and the file that has it is named.
func TestConfigTellsWhatRequestsSet(t *testing.T) {
	file := writeFile(t, "[replicator]\nmax_jobs = 7\nmax_churn = 8\n")
	local := strings.TrimSuffix(file, ".ini") + ".local.ini"
	if err := os.WriteFile(local, []byte("[replicator]\nmax_jobs = 9\n[admins]\nadm = s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []configCommand{{Config: []string{file}}, {Config: []string{file}, LocalConfig: local}} {
		out, _ := printed(t, c)
		for _, line := range []string{"Default: 500. Set in " + local + ".\nmax_jobs = 9\n",
			"Default: 20.\nmax_churn = 8\n", "Set in " + local + ".\n;adm =\n"} {
			if !strings.Contains(out, line) || strings.Contains(out, "s3cret") {
				t.Errorf("%q is not in\n%s", line, out)
			}
		}
	}
}

func TestConfigSelects(t *testing.T) {
	for key, want := range map[string][]string{
		"store": {"[store]", "key_prefix"}, "chttpd/port": {"[chttpd]", "port"},
		"replicator.shares": {"[replicator.shares]", ";ACCOUNT"},
	} {
		out, _ := printed(t, configCommand{Key: key})
		var names []string
		for line := range strings.Lines(out) {
			if name, _, _ := strings.Cut(strings.TrimSpace(line), " ="); name != "" && !strings.HasPrefix(name, "; ") {
				names = append(names, name)
			}
		}
		if !reflect.DeepEqual(names, want) {
			t.Errorf("%s: %q", key, names)
		}
	}
	for _, key := range []string{"chttp", "chttpd/", "replicator/max_jobz"} {
		if err := (&configCommand{Key: key}).print(io.Discard, io.Discard, nil); err == nil {
			t.Errorf("%s is accepted", key)
		}
	}
}
