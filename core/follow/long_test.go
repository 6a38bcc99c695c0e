package follow_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/core/ejson"
	"couchrelay/core/follow"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
)

// readAtMost is how many bytes of values one transaction reads at most where documents are long: a few of the longest
// that a mirror takes. A store has five seconds for it.
const readAtMost = 15_000_000

// weighing is a store that knows how many bytes its heaviest transaction has read.
type weighing struct {
	kv.Database
	most int
	long time.Duration // that one transaction has taken at most, from its first read to its commit
}

type weighed struct {
	kv.Transaction
	w     *weighing
	read  int
	began time.Time
}

func (w *weighing) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return &weighed{Transaction: w.Database.Begin(ctx, o), w: w}
}

func (t *weighed) Commit() error {
	if !t.began.IsZero() {
		t.w.long = max(t.w.long, time.Since(t.began))
	}
	return t.Transaction.Commit()
}

func (t *weighed) begin() {
	if t.began.IsZero() {
		t.began = time.Now()
	}
}

func (t *weighed) count(value []byte) {
	t.read += len(value)
	t.w.most = max(t.w.most, t.read)
}

func (t *weighed) Get(key []byte) ([]byte, error) {
	t.begin()
	value, err := t.Transaction.Get(key)
	t.count(value)
	return value, err
}

func (t *weighed) GetAll(keys [][]byte) ([][]byte, error) {
	t.begin()
	values, err := t.Transaction.GetAll(keys)
	for _, v := range values {
		t.count(v)
	}
	return values, err
}

func (t *weighed) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	t.begin()
	rows, err := t.Transaction.GetRange(r, o)
	for _, row := range rows {
		t.count(row.Value)
	}
	return rows, err
}

// writeLong writes long documents of the followed database, with replications of their own.
func (w *world) writeLong(n int) {
	for i := range n {
		z := strings.Repeat("x", 2_900_000)
		w.write(fmt.Sprint("d", i), fmt.Sprintf(`{"source":"http://a/x","target":"http://b/y%d","z":"%s"}`, i, z))
	}
}

// TestLongDocuments: states of documents that are all long are read by several transactions, and all are written. Those
// that go with their database are removed by several, too.
func TestLongDocuments(t *testing.T) {
	const n = 12
	w := newWorld(t)
	store := &weighing{Database: w.db}
	w.db = store
	w.writeLong(n)
	k := w.start()
	w.settle(10 * time.Second)
	w.kill(k)
	for i := range n {
		w.complete(fmt.Sprint("d", i))
	}
	store.most = 0
	w.start()
	w.settle(2 * time.Minute)
	for i := range n {
		if state := w.remote(fmt.Sprint("d", i))["_replication_state"]; state != "completed" {
			t.Errorf("document %d has the state %v", i, state)
		}
	}
	if store.most > readAtMost {
		t.Errorf("for states a transaction reads %d bytes", store.most)
	}
	store.most = 0
	w.couch = newCouch("2")
	w.settle(12 * time.Minute)
	for i := range n {
		if state, _ := w.job(fmt.Sprint("d", i)); state != "" {
			t.Errorf("the job of document %d, which is gone, is %s", i, state)
		}
	}
	if store.most > readAtMost {
		t.Errorf("for documents that go a transaction reads %d bytes", store.most)
	}
}

// TestLongLeftovers: of long documents that the feed did not bring a few at a time are kept until they are applied.
func TestLongLeftovers(t *testing.T) {
	const n = 12
	w := newWorld(t)
	w.writeLong(n)
	w.start()
	w.settle(10 * time.Second)
	most := 0
	w.asked = func(q follow.Request) {
		if q, is := q.(follow.Apply); is {
			size := 0
			for _, d := range q.Docs {
				size += len(d.Body)
			}
			most = max(most, size)
		}
	}
	w.fault = func(op peer.Op) fault {
		if _, is := op.(peer.ReadChanges); is {
			return empty
		}
		if _, is := op.(peer.ReadDocs); is {
			return leavesOut
		}
		return ""
	}
	w.couch.instance = "2"
	w.settle(12 * time.Minute)
	for i := range n {
		if state, _ := w.job(fmt.Sprint("d", i)); state == "" {
			t.Errorf("document %d has no job", i)
		}
	}
	if most == 0 || most > readAtMost {
		t.Errorf("%d bytes of documents are applied at once", most)
	}
}

// TestLongestDocument: a document that takes long to parse is parsed before the transaction begins with its first read,
// since it has five seconds.
func TestLongestDocument(t *testing.T) {
	w := newWorld(t)
	store := &weighing{Database: w.db}
	w.db = store
	body := `{"source":"http://a/x","target":"http://b/y","z":[` + strings.Repeat("0,", 1_600_000) + `0]}`
	began := time.Now()
	if _, err := ejson.Parse([]byte(body)); err != nil {
		t.Fatal(err)
	}
	parses := time.Since(began)
	w.write("d", body)
	w.start()
	w.settle(10 * time.Second)
	if state, _ := w.job("d"); state != "failed" { // the mirror does not take it
		t.Errorf("its job is %q", state)
	}
	if store.long > parses/2 {
		t.Errorf("a transaction takes %s, and to parse the document takes %s", store.long, parses)
	}
}
