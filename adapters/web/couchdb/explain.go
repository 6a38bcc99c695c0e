package couchdb

import (
	"net/http"

	"couchrelay/core/docs"
	"couchrelay/core/kv"

	"github.com/go-json-experiment/json/jsontext"
)

// explanation tells what _find would do, in the words of CouchDB.
type explanation struct {
	Database    string         `json:"dbname"`
	Index       jsontext.Value `json:"index"`
	Partitioned bool           `json:"partitioned"`
	Selector    jsontext.Value `json:"selector"`
	Options     explained      `json:"opts"`
	Limit       int64          `json:"limit"`
	Skip        int64          `json:"skip"`
	Fields      []string       `json:"fields"`
	Candidates  []candidate    `json:"index_candidates"`
	Hints       []hint         `json:"selector_hints"`
	View        *viewArguments `json:"mrargs,omitzero"`
	Covering    *bool          `json:"covering,omitzero"`
}

type explained struct {
	UseIndex  []string          `json:"use_index"`
	Bookmark  string            `json:"bookmark"`
	Limit     int64             `json:"limit"`
	Skip      int64             `json:"skip"`
	Sort      map[string]string `json:"sort"`
	Fields    []string          `json:"fields"`
	Partition string            `json:"partition"`
	Quorum    int64             `json:"r"`
	Conflicts bool              `json:"conflicts"`
	Stale     bool              `json:"stale"`
	Update    bool              `json:"update"`
	Stable    bool              `json:"stable"`
	Stats     bool              `json:"execution_stats"`
	Fallback  bool              `json:"allow_fallback"`
}

type candidate struct {
	Index    jsontext.Value `json:"index"`
	Analysis analysis       `json:"analysis"`
}

type analysis struct {
	Usable   bool     `json:"usable"`
	Reasons  []reason `json:"reasons"`
	Ranking  int      `json:"ranking"`
	Covering *bool    `json:"covering"`
}

type reason struct {
	Name string `json:"name"`
}

type hint struct {
	Type        string   `json:"type"`
	Indexable   []string `json:"indexable_fields"`
	Unindexable []string `json:"unindexable_fields"`
}

type viewArguments struct {
	Docs      bool    `json:"include_docs"`
	Type      string  `json:"view_type"`
	Reduce    bool    `json:"reduce"`
	Partition *string `json:"partition"`
	Start     *string `json:"start_key"`
	End       *string `json:"end_key"`
	Direction string  `json:"direction"`
	Stable    bool    `json:"stable"`
	Update    bool    `json:"update"`
	Conflicts string  `json:"conflicts"`
}

// explainFind tells what _find would do, without looking at any document.
func explainFind(q *request) error {
	o, err := readFind(q)
	if err != nil {
		return err
	}
	if _, err := do(q, func(kv.Tx, *docs.Database) (struct{}, error) { return struct{}{}, nil }); err != nil {
		return err
	}
	e := explanation{
		Database: q.database, Index: jsontext.Value("null"), Selector: o.selector.Normal(), Limit: o.limit,
		Skip:   o.skip,
		Fields: o.names, Candidates: []candidate{}, Options: o.explained(),
		Hints: []hint{{"json", []string{}, []string{}}},
	}
	indexable, others := o.selector.Hints()
	e.Hints[0].Indexable = append(e.Hints[0].Indexable, indexable...)
	e.Hints[0].Unindexable = append(e.Hints[0].Unindexable, others...)
	if !o.sortable() {
		why := []reason{}
		if !o.bounds.Indexed {
			why = append(why, reason{"field_mismatch"})
		}
		if len(o.sort) != 1 || o.sort[0].name != "_id" {
			why = append(why, reason{"sort_order_mismatch"})
		}
		e.Candidates = append(e.Candidates, candidate{allIndex, analysis{false, why, 1, nil}})
		return q.SendJSON(http.StatusOK, e)
	}
	e.Index, e.Covering, e.View = allIndex, new(bool), o.view()
	return q.SendJSON(http.StatusOK, e)
}

func (o *findOptions) explained() explained {
	e := explained{
		UseIndex: o.useIndex, Bookmark: o.bookmark, Limit: o.limit, Skip: o.skip,
		Sort: map[string]string{}, Fields: o.names, Quorum: o.quorum, Conflicts: o.conflicts,
		Stale: o.stale, Update: o.update, Stable: o.stable, Stats: o.stats, Fallback: o.fallback,
	}
	for _, f := range o.sort {
		e.Sort[f.name] = f.direction
	}
	return e
}

// view is the range of ids that is looked at.
func (o *findOptions) view() *viewArguments {
	v := &viewArguments{Docs: true, Type: "map", Direction: "fwd", Stable: o.stable, Update: o.update,
		Conflicts: "undefined", Start: o.bounds.Low, End: new("<MAX>")}
	if o.bounds.High != nil {
		v.End = o.bounds.High
	}
	if o.bounds.None {
		v.Start, v.End = nil, nil
	}
	if o.descending {
		v.Direction, v.Start, v.End = "rev", v.End, v.Start
	}
	return v
}
