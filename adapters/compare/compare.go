// Package compare reports whether two databases have the same contents, by asking both servers over HTTP. It
// keeps the documents of both in memory, so it is for demonstrations and tests only.
package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Summary counts the contents of two databases that are equal.
type Summary struct {
	Documents   int // deleted ones included
	Leafs       int // leaf revisions, of all documents
	Attachments int // of winning revisions
}

func (s Summary) String() string {
	return fmt.Sprintf("%d documents with %d leaf revisions and %d attachments",
		s.Documents, s.Leafs, s.Attachments)
}

// Databases compares the leaf revisions of all documents, deleted ones included, and the winning revisions
// with the digests of their attachments. It leaves out the revpos of attachments, which servers set by rules
// of their own. The error names the first difference, in the order of ids.
func Databases(ctx context.Context, source, target string) (Summary, error) {
	a, err := read(ctx, source)
	if err != nil {
		return Summary{}, err
	}
	b, err := read(ctx, target)
	if err != nil {
		return Summary{}, err
	}
	s := Summary{Documents: len(a)}
	for _, id := range slices.Sorted(maps.Keys(a)) {
		if a[id] != b[id] {
			return s, fmt.Errorf("document %q differs:\n  source %s\n  target %s", id, a[id], b[id])
		}
		s.Leafs += strings.Count(a[id].leafs, ",") + 1
		s.Attachments += strings.Count(a[id].winner, `"digest":`)
	}
	for _, id := range slices.Sorted(maps.Keys(b)) {
		if _, both := a[id]; !both {
			return s, fmt.Errorf("document %q is on the target only", id)
		}
	}
	return s, nil
}

// content is a document in a form that can be compared.
type content struct {
	leafs  string // the leaf revisions, sorted, with commas between them
	winner string // the winning revision, as JSON with sorted members
}

func (c content) String() string { return "leafs " + c.leafs + ", winner " + c.winner }

// read returns the documents of a database by id.
func read(ctx context.Context, database string) (map[string]content, error) {
	var feed struct {
		Results []struct {
			ID      string
			Changes []struct{ Rev string }
			Doc     map[string]any
		}
	}
	if err := get(ctx, database+"/_changes?style=all_docs&include_docs=true", &feed); err != nil {
		return nil, err
	}
	all := map[string]content{}
	for _, row := range feed.Results {
		var revs []string
		for _, c := range row.Changes {
			revs = append(revs, c.Rev)
		}
		slices.Sort(revs)
		attachments, _ := row.Doc["_attachments"].(map[string]any)
		for _, a := range attachments {
			if a, ok := a.(map[string]any); ok {
				delete(a, "revpos")
			}
		}
		winner, err := json.Marshal(row.Doc)
		if err != nil {
			return nil, err
		}
		all[row.ID] = content{leafs: strings.Join(revs, ","), winner: string(winner)}
	}
	return all, nil
}

// get decodes the JSON answer to a GET into result.
func get(ctx context.Context, url string, result any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s %s", url, answer.Status, body)
	}
	return json.Unmarshal(body, result)
}
