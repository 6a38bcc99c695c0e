package jobstore

import (
	"bytes"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/ejson"
	"couchrelay/core/json"
)

// Functions runs functions of design documents.
type Functions interface {
	// Validate asks the function validate_doc_update of a design document whether a document may be written, and
	// returns why not. It ends within a second, whatever the function does.
	Validate(Asked) *docs.Error
}

// Asked is what a validation function is asked, all of it as JSON.
type Asked struct {
	Design   []byte // the design document
	New, Old []byte // documents with their history; Old may be null
	User     []byte // database, name and roles
	Security []byte // the security object of the database
	DesignID string
}

// atOnceValidated is how many documents one transaction writes at most, for each function that they are shown to. All
// have to be asked in the time of a transaction.
const atOnceValidated = 8

// validators are the validation functions of a database, as a transaction found them before it wrote anything. It
// conflicts with every change of a design document, so no document passes by a function older than the one that was
// committed before it.
type validators struct {
	run      Functions
	database string
	security []byte
	designs  []*docs.Document
}

// validatorsOf reads the validation functions of a database.
func (s *Store) validatorsOf(db *docs.Database) (*validators, error) {
	v := &validators{run: s.Functions, database: db.Name}
	designs, err := docs.Designs(db)
	if err != nil {
		return nil, err
	}
	v.designs = slices.DeleteFunc(designs, func(d *docs.Document) bool { return !validates(d.Body) })
	if len(v.designs) > 0 {
		v.security, err = db.Security()
	}
	return v, err
}

// Validators are the validation functions of a database that holds no replications, as a transaction finds them before
// it writes: what they say of a document, and how many of some edits the transaction should write.
func Validators(
	s *Store, db *docs.Database, by Writer,
) (ask func(next, prev *docs.Document) error, most func(edits int) int, err error) {
	v, err := s.validatorsOf(db)
	if err != nil {
		return nil, nil, err
	}
	return func(next, prev *docs.Document) error {
		if err := checkDesign(next); err != nil {
			return err
		}
		return v.ask(next, prev, by)
	}, v.most, nil
}

// validates reports whether a design document has a validation function.
func validates(body []byte) bool {
	const member = "validate_doc_update"
	if !bytes.Contains(body, []byte(member)) {
		return false
	}
	v, err := ejson.Parse(body)
	_, has := v.Get(member)
	return err == nil && has
}

// most is how many of some edits a transaction should write.
func (v *validators) most(edits int) int {
	if len(v.designs) == 0 {
		return edits
	}
	return min(edits, max(1, atOnceValidated/len(v.designs)))
}

// ask shows a document to all validation functions, and returns the first refusal.
func (v *validators) ask(next, prev *docs.Document, by Writer) error {
	if len(v.designs) == 0 || exempt(next.ID) {
		return nil
	}
	if v.run == nil {
		return &docs.Error{Kind: docs.Internal, Name: "unknown_query_language", Reason: "javascript"}
	}
	asked := Asked{New: shownToFunction(next), Old: []byte("null"), User: v.user(by), Security: v.security}
	if prev != nil {
		asked.Old = shownToFunction(prev)
	}
	for _, design := range v.designs {
		asked.Design, asked.DesignID = design.AppendJSON(nil, docs.Format{}), design.ID
		if refusal := v.run.Validate(asked); refusal != nil {
			return refusal
		}
	}
	return nil
}

// shownToFunction is a document as functions see it, with credentials and without the bytes of attachments.
func shownToFunction(d *docs.Document) []byte {
	shown := *d
	shown.Attachments = slices.Clone(d.Attachments)
	for i := range shown.Attachments {
		shown.Attachments[i].Content = docs.Stub
	}
	return shown.AppendJSON(nil, docs.Format{Revisions: true})
}

// user is the user context of a writer.
func (v *validators) user(by Writer) []byte {
	name := &by.Name
	if by.Name == "" {
		name = nil
	}
	text, err := json.Encode(struct {
		DB    string   `json:"db"`
		Name  *string  `json:"name"`
		Roles []string `json:"roles"`
	}{v.database, name, append([]string{}, by.Roles...)})
	if err != nil {
		panic("jobstore: " + err.Error()) // plain strings
	}
	return text
}

// replicator is the service itself when it writes states into documents, in the words of CouchDB.
var replicator = Writer{Admin: true, Roles: []string{"_admin", "replicator"}}

// checkDesign refuses design documents with a validation function that is no text, as CouchDB does.
func checkDesign(next *docs.Document) error {
	if next.Deleted || !strings.HasPrefix(next.ID, "_design/") {
		return nil
	}
	body, err := ejson.Parse(next.Body)
	if err != nil {
		return docs.BadRequest("invalid UTF-8 JSON")
	}
	if f, has := body.Get("validate_doc_update"); has && f.Kind != ejson.String {
		return &docs.Error{Kind: docs.Invalid, Name: "invalid_design_doc",
			Reason: "`validate_doc_update` field must have string type"}
	}
	return nil
}
