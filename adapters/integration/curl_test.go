package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// example is a command of clients/curl.txt with the answer that it must have.
type example struct {
	title    string
	command  string
	repeated bool // until the answer is as wanted
	status   string
	shape    string
	take     [][2]string // names, and the members of the answer whose texts they stand for from then on
}

// readExamples reads clients/curl.txt.
func readExamples(t *testing.T) (all []example) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("clients", "curl.txt"))
	check(err)
	title := ""
	_, table, _ := strings.Cut(string(raw), "\n\n")
	for line := range strings.Lines(table) {
		line = strings.TrimSuffix(line, "\n")
		mark, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "":
		case mark == "#":
			title = rest
		case mark == "$" || mark == "?":
			all = append(all, example{title: title, command: rest, repeated: mark == "?"})
		case len(all) > 0 && all[len(all)-1].status == "":
			all[len(all)-1].status, all[len(all)-1].shape = mark, rest
		default:
			name, member, ok := strings.Cut(line, "=")
			if !ok {
				t.Fatalf("curl.txt: %q", line)
			}
			last := &all[len(all)-1]
			last.take = append(last.take, [2]string{name, member})
		}
	}
	return all
}

// TestCurl: what CouchDB's documentation shows of curl, with the answers that it shows.
func TestCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("SKIPPED: there is no curl")
	}
	s := newSite(t, "")
	want(t, 201, "PUT", s.databases+"foo", nil)
	write(t, s.databases+"foo", true, object{"_id": "doc1"}, object{"_id": "doc2"}, object{"_id": "doc3"})
	dir := t.TempDir()
	check(os.WriteFile(filepath.Join(dir, ".curlrc"), []byte(`silent
max-time = 30
write-out = "\n%{http_code}"
`), 0o600))
	taken := map[string]string{}
	failed := 0
	examples := readExamples(t)
	for _, e := range examples {
		if err := e.run(s, dir, taken); err != nil {
			t.Errorf("%s: %v", e.title, err)
			failed++
		}
	}
	t.Logf("%d of %d examples are answered as documented", len(examples)-failed, len(examples))
}

// run runs an example, for a while again and again if it is to be repeated.
func (e example) run(s site, dir string, taken map[string]string) error {
	fill := func(text string) string {
		return os.Expand(text, func(name string) string {
			if value, has := taken[name]; has {
				return value
			}
			return "$" + name
		})
	}
	command := fill(e.command)
	command = strings.ReplaceAll(command, "http://user:password@myserver.com/", s.databases)
	command = strings.NewReplacer("http://myserver.com/", s.databases, "localhost:5984", s.host).Replace(command)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		answer, err := e.ask(dir, command, fill(e.shape))
		if err == nil {
			for _, take := range e.take {
				taken[take[0]] = fmt.Sprint(answer.(object)[take[1]])
			}
			return nil
		}
		if !e.repeated || time.Now().After(end) {
			return fmt.Errorf("%s: %w", command, err)
		}
	}
}

// ask runs a command once and compares its answer.
func (e example) ask(dir, command, shape string) (answer any, err error) {
	cmd := exec.Command("bash", "-c", command)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CURL_HOME="+dir)
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	i := bytes.LastIndexByte(out, '\n')
	body, status := out[:max(i, 0)], string(out[i+1:])
	var wanted any
	if err := json.Unmarshal([]byte(shape), &wanted); err != nil {
		return nil, fmt.Errorf("%s: %w", shape, err)
	}
	if err := json.Unmarshal(body, &answer); err != nil || status != e.status {
		return nil, fmt.Errorf("%s %s", status, body)
	}
	if place := differs(wanted, answer); place != "" {
		return nil, fmt.Errorf("%s in %s", place, body)
	}
	return answer, nil
}

// differs returns where a value is not of a shape, and nothing if it is.
func differs(shape, value any) string {
	switch shape := shape.(type) {
	case object:
		members, is := value.(object)
		if !is {
			return fmt.Sprintf(": no object but %v", value)
		}
		for name, inner := range shape {
			member, has := members[name]
			if !has {
				return "/" + name + ": missing"
			}
			if place := differs(inner, member); place != "" {
				return "/" + name + place
			}
		}
		return ""
	case []any:
		list, is := value.([]any)
		if !is || len(list) != len(shape) {
			return fmt.Sprintf(": %v is no list of %d", value, len(shape))
		}
		for i := range shape {
			if place := differs(shape[i], list[i]); place != "" {
				return fmt.Sprint("/", i, place)
			}
		}
		return ""
	case string:
		if isLike(shape, value) {
			return ""
		}
	default:
		if shape == value {
			return ""
		}
	}
	return fmt.Sprintf(": %v, want %v", value, shape)
}

// isLike reports whether a value is what a text of curl.txt stands for.
func isLike(pattern string, value any) (is bool) {
	text, isText := value.(string)
	switch {
	case pattern == "<any>":
		return true
	case pattern == "<text>":
		return isText
	case pattern == "<number>":
		_, is = value.(float64)
		return is
	case pattern == "<list>":
		_, is = value.([]any)
		return is
	case pattern == "<object>":
		_, is = value.(object)
		return is
	case pattern == "<time>":
		_, err := time.Parse("2006-01-02T15:04:05Z", text)
		return err == nil
	case strings.HasPrefix(pattern, "~"):
		return isText && regexp.MustCompile(pattern[1:]).MatchString(text)
	}
	return pattern == value
}
