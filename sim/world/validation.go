package world

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/prng"
	"couchrelay/sim/decide"
)

// validationActions change the validation functions of replicator databases. A swarm draws them by themselves.
var validationActions = []action{
	{name: "function-changed", where: "a frontend", most: 100_000, do: changeFunction,
		what: "a replicator database gets another validation function, or none"},
}

// drawValidation has one world of four have validation functions in its replicator databases.
func (c *Config) drawValidation(seed uint64) {
	if r := prng.Fork(seed, "validation"); r.Intn(4) == 0 {
		for _, a := range validationActions {
			c.Actions[a.name] = 1 + r.Intn(a.most)
		}
	}
}

// validates reports whether there are validation functions in a world.
func (c *Config) validates() bool {
	return slices.ContainsFunc(validationActions, func(a action) bool {
		return c.Actions[a.name] > 0 || slices.ContainsFunc(c.Events, func(e Event) bool { return e.What == a.name })
	})
}

// tables are the engine of this world: a function is the tags that it forbids, with spaces between.
type tables struct{}

// Tagged is what tables read of a document, or of a design document.
type Tagged struct {
	Tag     string `json:"tag"`
	Forbids string `json:"validate_doc_update"`
}

// tagged reads a document.
func tagged(text []byte) (t Tagged) {
	_ = json.Unmarshal(text, &t) // what is no object has neither
	return t
}

// Forbidden reports whether the function of a design document forbids a document.
func Forbidden(design, document []byte) bool {
	tag := tagged(document).Tag
	return tag != "" && slices.Contains(strings.Fields(tagged(design).Forbids), tag)
}

func (tables) Validate(a jobstore.Asked) *docs.Error {
	if Forbidden(a.Design, a.New) {
		return docs.Forbidden("no such tag")
	}
	return nil
}

// tags are those that documents have and functions forbid.
const tags = 4

// tag gives a document a tag, where there are validation functions.
func tag(u *users, wanted map[string]any) {
	if n := u.tags.Int(2 * tags); u.w.Config.validates() && n < tags {
		wanted["tag"] = fmt.Sprint("t", n)
	}
}

// Design is the design document with the validation function of a replicator database.
const Design = "_design/v"

// changeFunction writes a function that forbids some tags, or deletes it.
func changeFunction(u *users, site *decide.Site) {
	p, t := u.frontend(site), u.tenants[site.Int(len(u.tenants))]
	if p == nil || t.busy {
		return
	}
	var forbidden []string
	for n := range tags {
		if site.Int(3) == 1 {
			forbidden = append(forbidden, fmt.Sprint("t", n))
		}
	}
	token := uint64(u.next())
	u.w.emit(FunctionAsked{t, forbidden})
	u.w.Engine.Go(p.Process, "api", func() {
		err := writeFunction(u.w.Engine.NewContext(p.Process, RequestLimit), u, t, forbidden, token)
		u.w.Engine.Logf("users", "%s forbids %v: %v", t.name, forbidden, err)
	})
}

func writeFunction(ctx context.Context, u *users, t *Tenant, forbidden []string, token uint64) error {
	return kv.Do(ctx, u.w.db, func(tx kv.Tx) error {
		db, err := u.w.store.Docs.Open(tx, t.name)
		if err != nil {
			return err
		}
		design := docs.Document{ID: Design, Deleted: len(forbidden) == 0}
		if old, err := db.Read(Design, docs.Want{Deleted: true}); err == nil && !old.Deleted {
			design.Rev = old.Rev
		} else if design.Deleted || !isRefusal(err) && err != nil {
			return err
		}
		design.Body = fmt.Appendf(nil, `{"validate_doc_update":%q}`, strings.Join(forbidden, " "))
		edits := []docs.Edit{{Document: design, Token: token}}
		written, err := u.w.store.WriteDocs(tx, db, edits, admin, u.w.Engine.Now())
		if err == nil && written[0].Err != nil {
			return written[0].Err
		}
		return err
	})
}

// FunctionAsked is a user who is about to give a replicator database a function that forbids these tags.
type FunctionAsked struct {
	Tenant    *Tenant
	Forbidden []string
}

func (FunctionAsked) fact() {}

// ForbidNow gives a replicator database a function, in a transaction in which nothing fails.
func ForbidNow(w *World, forbidden ...string) error {
	w.storeWorld.undisturbed = true
	defer func() { w.storeWorld.undisturbed = false }()
	t := w.users.tenants[0]
	w.emit(FunctionAsked{t, forbidden})
	err := writeFunction(context.Background(), w.users, t, forbidden, uint64(w.users.next()))
	w.stepped() // no event has brought this about
	return err
}
