package fakefdb_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/sim/fakefdb"
)

// misreads is a store with the rows a, b and c, of which c is empty, that misreads with some picks, one for each read.
// told is what became of the attempts.
func misreads(
	t *testing.T, spared func(fakefdb.Row) bool, picks ...uint64,
) (do func(func(kv.Tx) error) error, told *[]string) {
	var script []fakefdb.Outcome
	for _, p := range picks {
		script = append(script, fakefdb.Outcome{Fault: fakefdb.Misread, Pick: p})
	}
	w, _ := newWorld(scripted(fakefdb.Read, script...))
	told = new([]string)
	db := fakefdb.New(fakefdb.InWorld(w), fakefdb.OnMisread(spared, func(m fakefdb.Misreading) {
		row := ""
		if m.Row != nil {
			row = fmt.Sprintf("%s %v", m.Row.Key, m.Row.Behind)
		}
		*told = append(*told, fmt.Sprint(row, " ", m.Failed, " ", m.Err))
	}))
	do = func(f func(kv.Tx) error) (err error) {
		w.start(func() { err = kv.Do(t.Context(), db, f) })
		w.run()
		return err
	}
	err := do(func(tx kv.Tx) error {
		tx.Set([]byte("a"), []byte("1"))
		tx.Set([]byte("b"), []byte("2"))
		tx.Set([]byte("c"), nil)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return do, told
}

func none(fakefdb.Row) bool { return false }

// all reads a range and says what it has.
func all(r kv.Reader, end string, o kv.RangeOptions) string {
	pairs, err := r.GetRange(kv.Range{Begin: []byte("a"), End: []byte(end)}, o)
	if err != nil {
		return err.Error()
	}
	var text []string
	for _, p := range pairs {
		text = append(text, fmt.Sprintf("%q=%q", p.Key, p.Value))
	}
	return strings.ReplaceAll(strings.Join(text, " "), `"`, "")
}

// TestMisread: which rows a read may spoil, in which order they are picked, and that the stored rows stay whole.
func TestMisread(t *testing.T) {
	const whole, bad = `a=1 b=2 c=`, `\xff\x00`
	of := func(end string, o kv.RangeOptions) func(kv.Reader) string {
		return func(r kv.Reader) string { return all(r, end, o) }
	}
	get := func(keys ...string) func(kv.Reader) string {
		return func(r kv.Reader) string {
			if len(keys) == 1 {
				v, err := r.Get([]byte(keys[0]))
				return fmt.Sprintf("%q %v", v, err)
			}
			var list [][]byte
			for _, key := range keys {
				list = append(list, []byte(key))
			}
			v, err := r.GetAll(list)
			return fmt.Sprintf("%q %v", v, err)
		}
	}
	for _, c := range []struct {
		name   string
		read   func(kv.Reader) string
		spared func(fakefdb.Row) bool
		want   []string // with picks from 0
	}{
		{"range", of("d", kv.RangeOptions{}), none, []string{
			`a=` + bad + ` b=2 c=`, `a=1 a\xfd=1 b=2 c=`, `a=1 b=` + bad + ` c=`, `a=1 b=2 b\xfd=2 c=`,
			`a=1 b=2 c= c\xfd=`, `a=` + bad + ` b=2 c=`}},
		{"range that ends behind a key", of("b\x00", kv.RangeOptions{}), none, []string{
			`a=` + bad + ` b=2`, `a=1 a\xfd=1 b=2`, `a=1 b=` + bad}},
		{"backwards", of("c", kv.RangeOptions{Reverse: true}), none, []string{
			`b=` + bad + ` a=1`, `b\xfd=2 b=2 a=1`, `b=2 a=` + bad, `b=2 a\xfd=1 a=1`}},
		{"first rows", of("d", kv.RangeOptions{Limit: 2}), none, []string{
			`a=` + bad + ` b=2`, `a=1 a\xfd=1`, `a=1 b=` + bad, `a=` + bad + ` b=2`}},
		{"last row", of("c", kv.RangeOptions{Limit: 1, Reverse: true}), none, []string{
			`b=` + bad, `b\xfd=2`, `b=` + bad}},
		{"key without a row", get("x"), none, []string{`"" <nil>`}},
		{"key", get("b"), none, []string{`"\xff\x00" <nil>`}},
		{"empty value", get("c"), none, []string{`"" <nil>`}},
		{"keys", get("x", "c", "b"), none, []string{`["" "" "\xff\x00"] <nil>`, `["" "" "\xff\x00"] <nil>`}},
		{"spared values", of("d", kv.RangeOptions{}), func(r fakefdb.Row) bool { return !r.Behind }, []string{
			`a=1 a\xfd=1 b=2 c=`, `a=1 b=2 b\xfd=2 c=`}},
		{"nothing but spared rows", of("d", kv.RangeOptions{}), func(fakefdb.Row) bool { return true }, []string{
			whole}},
		{"a store without the fault", of("d", kv.RangeOptions{}), nil, []string{whole}},
	} {
		for pick, want := range c.want {
			for _, snapshot := range []bool{false, true} {
				do, _ := misreads(t, c.spared, uint64(pick))
				got := ""
				read := func(tx kv.Tx) error {
					if got = c.read(tx); snapshot {
						got = c.read(tx.Snapshot())
					}
					return nil
				}
				if err := do(read); err != nil || got != want {
					t.Errorf("%s with pick %d gives %s, %v; want %s", c.name, pick, got, err, want)
				}
				err := do(func(tx kv.Tx) error { got = all(tx, "d", kv.RangeOptions{}); return nil })
				if err != nil || got != whole {
					t.Errorf("%s: afterwards there is %s, %v", c.name, got, err)
				}
			}
		}
	}
}

// TestMisreadAgrees: an attempt is given a row always so, and no row that it was given whole or has written; the next
// attempt may be given all rows whole.
func TestMisreadAgrees(t *testing.T) {
	do, _ := misreads(t, none, 0, 0, 0, 0)
	var got []string
	err := do(func(tx kv.Tx) error {
		for _, end := range []string{"b", "d", "b"} {
			got = append(got, all(tx, end, kv.RangeOptions{}))
		}
		if len(got) == 3 {
			return kv.NewError(kv.NotCommitted)
		}
		return nil
	})
	want := `a=\xff\x00|a=\xff\x00 b=2 c=|a=\xff\x00|a=\xff\x00|a=\xff\x00 b=2 c=|a=\xff\x00`
	if text := strings.Join(got, "|"); err != nil || text != want {
		t.Errorf("%s, %v", text, err)
	}
	do, _ = misreads(t, func(r fakefdb.Row) bool { return string(r.Key) == "a" }, 0, 1)
	got = nil
	_ = do(func(tx kv.Tx) error {
		for _, end := range []string{"b", "d", "c"} {
			got = append(got, all(tx, end, kv.RangeOptions{}))
		}
		return nil
	})
	if text := strings.Join(got, "|"); text != `a=1|a=1 b=2 b\xfd=2 c=|a=1 b=2 b\xfd=2` {
		t.Error(text)
	}
	do, _ = misreads(t, none, 0)
	text := ""
	_ = do(func(tx kv.Tx) error {
		tx.Set([]byte("a"), []byte("3"))
		text = all(tx, "d", kv.RangeOptions{})
		return nil
	})
	if text != `a=3 b=\xff\x00 c=` {
		t.Error(text)
	}
}

// TestMisreadIsTold: what becomes of attempts that were given such a row, or end with a read that failed.
func TestMisreadIsTold(t *testing.T) {
	mistaken := errors.New("mistaken")
	read := func(tx kv.Tx) { _, _ = tx.Get([]byte("a")) }
	for _, c := range []struct {
		name string
		do   func(kv.Tx) error
		told string
	}{
		{"read", func(tx kv.Tx) error { read(tx); return nil }, "[a false <nil> <nil>]"},
		{"write", func(tx kv.Tx) error { read(tx); tx.Set([]byte("x"), nil); return nil }, "[a false <nil> <nil>]"},
		{"error", func(tx kv.Tx) error { read(tx); return mistaken }, "[a false <nil> mistaken]"},
		{"no read", func(tx kv.Tx) error { return mistaken }, "[]"},
		{"watch", func(tx kv.Tx) error { tx.Watch([]byte("a")).Cancel(); return nil }, "[]"},
	} {
		do, told := misreads(t, none, 0)
		_ = do(c.do)
		if fmt.Sprint(*told) != c.told {
			t.Errorf("%s: told %v, want %s", c.name, *told, c.told)
		}
	}
	w, _ := newWorld(scripted(fakefdb.Read, fakefdb.Outcome{Fault: fakefdb.ReadTimedOut}))
	told := 0
	db := fakefdb.New(fakefdb.InWorld(w), fakefdb.OnMisread(nil, func(m fakefdb.Misreading) {
		if told++; m.Row != nil || kv.CodeOf(m.Failed) != kv.TransactionTimedOut || m.Err != mistaken {
			t.Errorf("told %+v", m)
		}
	}))
	w.start(func() {
		_ = kv.Do(context.Background(), db, func(tx kv.Tx) error { read(tx); return mistaken })
		_ = kv.Do(context.Background(), db, func(tx kv.Tx) error { read(tx); return mistaken })
	})
	if w.run(); told != 1 {
		t.Errorf("told %d times", told)
	}
}
