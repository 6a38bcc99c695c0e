package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// compareDir has the cases, CouchDB's answers to them, and the differences that stay with their reasons.
const compareDir = "testdata/compare"

// answered is what a server makes of a case.
type answered struct {
	Status int               `json:"status"`
	Error  string            `json:"error,omitempty"`
	Body   map[string]string `json:"body,omitempty"`  // its members with their types
	Rows   string            `json:"rows,omitempty"`  // of a list: what each is about, in their order
	Total  string            `json:"total,omitempty"` // of a list: total_rows and offset
	State  string            `json:"state,omitempty"` // what becomes of a document, as lists tell
	Marks  string            `json:"marks,omitempty"` // what the replicator wrote into the document
	ID     string            `json:"id,omitempty"`    // of the replication
}

// recorded is a CouchDB's answers.
type recorded struct {
	Version string              `json:"version"`
	UUID    string              `json:"uuid"`
	Base    string              `json:"base"` // its URL, which is a part of replication ids
	Answers map[string]answered `json:"answers"`
}

// TestAsCouchDB sends documents and requests, valid and not, to couchrelay and to CouchDB, or compares with what
// CouchDB answered when that was recorded: the answers, and what becomes of the documents. Each difference has a
// reason in differences.txt, and each row there is a difference. More members than CouchDB's are none, and neither is
// null where CouchDB has a value.
//
//	COUCHDB_URL=http://ADMIN:PASSWORD@HOST:5984 make record-couchdb
//
// records anew.
func TestAsCouchDB(t *testing.T) {
	alongside(t)
	path := filepath.Join(compareDir, "couchdb.json")
	var theirs recorded
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &theirs)
	}
	peer := ""
	if couch != "" {
		fmt.Println("COMPARED with the CouchDB of COUCHDB_URL")
		peer = couch
		theirs = recordCouchDB(t)
		if *record {
			raw, err = json.MarshalIndent(theirs, "", "\t")
			check(err)
			check(os.MkdirAll(compareDir, 0o755))
			check(os.WriteFile(path, append(raw, '\n'), 0o644))
		}
	} else {
		check(err)
		fmt.Printf("COMPARED with recorded answers of CouchDB %s, since COUCHDB_URL names none\n", theirs.Version)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "compare.ini")
	check(os.WriteFile(config, fmt.Appendf(nil, "[couchdb]\nuuid = %s\n[admins]\nadm = pass\n", theirs.UUID), 0o600))
	args := []string{"--config", config}
	if peer == "" {
		port := freePort()
		args, peer = append(args, "--sandbox", port), "http://adm:pass@127.0.0.1:"+port+"/"
	}
	relay := serve(t, dir, args...)
	ours := side{t, strings.Replace(relay.url, "http://", "http://adm:pass@", 1), peer, theirs.Base}
	await(t, "the databases", func() bool { status, _ := call(t, "GET", peer, nil); return status == 200 })
	compareAnswers(t, theirs.Version, theirs.Answers, ours.all(theirs.Answers))
}

func recordCouchDB(t *testing.T) recorded {
	welcome := want(t, 200, "GET", couch, nil)
	s := side{t, couch, couch, couch}
	defer s.oneShard()()
	return recorded{fmt.Sprint(welcome["version"]), fmt.Sprint(welcome["uuid"]), couch, s.all(nil)}
}

// later finds the release in a reason that is none for it and those after it.
var later = regexp.MustCompile(`as in CouchDB ([0-9.]+) and later`)

// stands reports whether a reason tells of a difference from a CouchDB of this version.
func stands(reason, version string) bool {
	since := later.FindStringSubmatch(reason)
	numbers := func(version string) (list []int) {
		version, _, _ = strings.Cut(version, "-")
		for part := range strings.SplitSeq(version, ".") {
			n, _ := strconv.Atoi(part)
			list = append(list, n)
		}
		return list
	}
	return since == nil || slices.Compare(numbers(version), numbers(since[1])) < 0
}

func TestStands(t *testing.T) {
	const reason = "it is so, as in CouchDB 3.5.2 and later"
	for version, want := range map[string]bool{"3.5.0": true, "3.5.1-abc": true, "3.5.2": false, "3.5.2-abc": false,
		"3.5.10": false, "3.6.0": false} {
		if stands(reason, version) != want || !stands("as in CouchDB", version) {
			t.Errorf("%s: %v", version, !want)
		}
	}
}

// compareAnswers fails the test for differences without a reason, and for reasons without a difference.
func compareAnswers(t *testing.T, version string, theirs, ours map[string]answered) {
	reasons := readReasons()
	cases := map[string]map[string]bool{} // by reason
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		for _, d := range differences(theirs[name], ours[name]) {
			line := name + ": " + d
			reason := reasons[line]
			if reason == "" {
				t.Errorf("without a reason: %s", line)
			}
			if cases[reason] == nil {
				cases[reason] = map[string]bool{}
			}
			cases[reason][name] = true
			delete(reasons, line)
		}
	}
	for _, line := range slices.Sorted(maps.Keys(reasons)) {
		name, _, _ := strings.Cut(line, ":")
		if stands(reasons[line], version) && (couch != "" || !needsCouch(name)) {
			t.Errorf("no difference any more: %s", line)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(cases)) {
		t.Logf("%3d cases: %s", len(cases[reason]), reason)
	}
	t.Logf("%d cases", len(ours))
}

// readReasons returns the differences that are known, each with its reason.
func readReasons() map[string]string {
	reasons, reason := map[string]string{}, ""
	raw, err := os.ReadFile(filepath.Join(compareDir, "differences.txt"))
	check(err)
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if text, is := strings.CutPrefix(line, "# "); is {
			reason = text
		} else if line != "" {
			reasons[line] = reason
		}
	}
	return reasons
}

// needsCouch reports whether what becomes of a case depends on users and sequences of a CouchDB.
func needsCouch(name string) bool {
	return strings.Contains(name, "password") || strings.Contains(name, "refuses") ||
		strings.HasPrefix(name, "doc since-")
}

// differences words how an answer differs from CouchDB's.
func differences(their, our answered) (list []string) {
	add := func(what, a, b string) {
		if a != b {
			list = append(list, fmt.Sprintf("%s %s, here %s", what, cmp.Or(a, "none"), cmp.Or(b, "none")))
		}
	}
	add("status", fmt.Sprint(their.Status), fmt.Sprint(our.Status))
	add("error", their.Error, our.Error)
	add("state", their.State, our.State)
	add("marks", their.Marks, our.Marks)
	add("rows", their.Rows, our.Rows)
	add("total", their.Total, our.Total)
	if their.ID != "" && our.ID != "" && their.ID != our.ID {
		list = append(list, "another id")
	}
	if their.Status == our.Status {
		for _, name := range slices.Sorted(maps.Keys(their.Body)) {
			kind, has := our.Body[name]
			if !has {
				list = append(list, "no "+name)
			} else if kind != "null" && their.Body[name] != "null" {
				add(name, their.Body[name], kind)
			}
		}
	}
	return list
}

// kinds are the types of an object's members; those of objects in it have names with dots. What depends on the moment
// is left out: the numbers of a job, its history.
func kinds(prefix string, o object, into map[string]string) map[string]string {
	for name, v := range o {
		name = prefix + name
		switch v := v.(type) {
		case nil:
			into[name] = "null"
		case object:
			into[name] = "object"
			if !strings.HasSuffix(name, "info") && !strings.HasSuffix(name, "_revs") {
				kinds(name+".", v, into)
			}
		case []any:
			into[name] = "array"
			if len(v) > 0 && !strings.HasSuffix(name, "history") {
				if first, is := v[0].(object); is {
					kinds(name+".", first, into)
				}
			}
		default:
			into[name] = fmt.Sprintf("%T", v)
		}
	}
	return into
}
