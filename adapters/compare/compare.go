// Package compare tells whether two databases hold the same, by asking both servers over HTTP. It holds both
// lists in memory, so it is for demonstrations and tests.
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

// Summary is what two databases have in common.
type Summary struct {
	Documents   int // deleted ones too
	Leafs       int // revisions that nothing follows from
	Attachments int // of winning revisions
}

func (s Summary) String() string {
	return fmt.Sprintf("%d documents with %d leaf revisions and %d attachments", s.Documents, s.Leafs, s.Attachments)
}

// Databases compares the leaf revisions of all documents, deleted ones too, and the winning revisions with the
// digests of their attachments; the revpos of an attachment is a server's own affair. The error names the
// first difference, in the order of ids.
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

// content is what is compared of a document.
type content struct {
	leafs  string // sorted revisions
	winner string // as JSON with sorted members
}

func (c content) String() string { return "leafs " + c.leafs + ", winner " + c.winner }

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
