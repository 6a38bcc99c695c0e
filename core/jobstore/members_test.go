package jobstore

import (
	"testing"

	"couchrelay/core/ejson"
)

// TestSet: a member takes the place of one of its name, and comes last if there is none.
func TestSet(t *testing.T) {
	object, err := ejson.Parse([]byte(`{"a":1,"_replication_state":"triggered","b":2}`))
	if err != nil {
		t.Fatal(err)
	}
	set(&object, "_replication_state", text("failed"))
	set(&object, "c", text("new"))
	if got := string(object.Append(nil)); got != `{"a":1,"_replication_state":"failed","b":2,"c":"new"}` {
		t.Error(got)
	}
}

// TestUnreadableNamesItsDocument: what lists have of a job that cannot be read names the document that its id has.
func TestUnreadableNamesItsDocument(t *testing.T) {
	if rec := unreadable(jobID("d|x")); rec.DocID != "d|x" || rec.Instance+"d|x" != jobID("d|x") {
		t.Errorf("%+v", rec)
	}
	if rec := unreadable("0123456789abcdef"); rec.DocID != "" || rec.Instance != "" {
		t.Errorf("of a request: %+v", rec)
	}
}
