package peers

import (
	"fmt"

	"couchrelay/core/docs"
	"couchrelay/core/spec"

	json "github.com/go-json-experiment/json/v1"
)

// Forms is the number of selectors that Selector knows for each group.
const Forms = 7

// Selector is a selector by its number, for a group of documents from 0 to 2.
func Selector(form, group int) json.RawMessage {
	return fmt.Appendf(nil, []string{
		`{"group":%d}`, `{"group":{"$gt":%d}}`, `{"group":{"$in":[%d,"1"]}}`, `{"group":{"$ne":%d}}`,
		`{"_id":{"$lt":"doc%d"}}`,
		`{"$or":[{"group":{"$lt":%d}},{"n":{"$exists":false}}]}`,
		`{"$and":[{"group":{"$gte":%d}},{"_id":{"$gt":"doc"}}]}`,
	}[form], group)
}

// Query returns query parameters that make a filter function of this world let a further group of documents
// through. The parameter's name is one that servers give a meaning of their own, too.
func Query(group int) json.RawMessage { return fmt.Appendf(nil, `{"attachments":%d}`, group) }

// meant returns the group that the user's query parameters name, told the one that a replication's request
// names.
func meant(f spec.Filter) string {
	var query struct{ Attachments json.Number }
	_ = json.Unmarshal(f.QueryParams, &query) // there may be none
	return query.Attachments.String()
}

func told(f spec.Filter) string {
	for _, p := range f.ChangesParams() {
		if p.Name == "attachments" {
			return p.Value
		}
	}
	return ""
}

// numbers are the forms and groups of all these selectors.
var numbers = func() map[string][2]int {
	all := map[string][2]int{}
	for form := range Forms {
		for group := range 3 {
			all[string(Selector(form, group))] = [2]int{form, group}
		}
	}
	return all
}()

// selects reports whether one of these selectors lets a document through, by the definition of its operators
// rather than by core/mango. known is false for other selectors.
func selects(selector string, d *docs.Document) (does, known bool) {
	number, known := numbers[selector]
	var body struct{ Group, N *int }
	if !known || json.Unmarshal(d.Body, &body) != nil {
		return false, false
	}
	group, has, g := number[1], body.Group != nil, 0
	if has {
		g = *body.Group
	}
	return []bool{
		has && g == group, has && g > group, has && g == group, has && g != group, d.ID < fmt.Sprint("doc", group),
		has && g < group || body.N == nil, has && g >= group && d.ID > "doc",
	}[number[0]], true
}
