package watchers

import (
	"slices"
	"testing"

	"couchrelay/core/kv/ryw"
)

func TestChanged(t *testing.T) {
	for _, c := range []struct {
		name     string
		mutation ryw.Mutation
		now      map[string]string // present values; absent ones are nil
		want     []string
	}{
		{"set to another value", ryw.Mutation{Kind: ryw.Set, Key: []byte("a")}, map[string]string{"a": "2"},
			[]string{"a1", "a2"}},
		{"set to the same value", ryw.Mutation{Kind: ryw.Set, Key: []byte("a")}, map[string]string{"a": "1"}, nil},
		{"empty is not absent", ryw.Mutation{Kind: ryw.Set, Key: []byte("c")}, map[string]string{"c": ""},
			[]string{"absent"}},
		{"other key", ryw.Mutation{Kind: ryw.Set, Key: []byte("aa")}, map[string]string{"a": "2"}, nil},
		{"cleared range", ryw.Mutation{Kind: ryw.ClearRange, Key: []byte("a"), Value: []byte("c")}, nil,
			[]string{"a1", "a2", "b"}},
		{"end of the range", ryw.Mutation{Kind: ryw.ClearRange, Key: []byte("0"), Value: []byte("b")}, nil,
			[]string{"a1", "a2"}},
		{"cleared nothing", ryw.Mutation{Kind: ryw.ClearRange, Key: []byte("c"), Value: []byte("d")}, nil, nil},
	} {
		var r Registry[string]
		r.Add([]byte("a"), []byte("1"), []byte("1"), "a1")
		r.Add([]byte("b"), []byte("1"), []byte("1"), "b")
		r.Add([]byte("a"), []byte("1"), []byte("1"), "a2")
		r.Add([]byte("c"), nil, nil, "absent")
		latest := func(key []byte) []byte {
			if v, ok := c.now[string(key)]; ok {
				return []byte(v)
			}
			return nil
		}
		got := r.Changed([]ryw.Mutation{c.mutation}, latest)
		keys := 3
		for _, w := range []string{"a1", "b", "absent"} { // with the last watch its key is forgotten
			if slices.Contains(c.want, w) {
				keys--
			}
		}
		if !slices.Equal(got, c.want) || r.Len() != 4-len(c.want) || r.keys.Len() != keys {
			t.Errorf("%s: ended %v, %d of %d keys left; want %v", c.name, got, r.Len(), r.keys.Len(), c.want)
		}
		if again := r.Changed([]ryw.Mutation{c.mutation}, latest); again != nil {
			t.Errorf("%s: ended %v again", c.name, again)
		}
	}
}

func TestAddAndRemove(t *testing.T) {
	var r Registry[int]
	if r.Add([]byte("a"), nil, []byte{}, 1) || r.Add([]byte("a"), []byte("x"), []byte("y"), 1) || r.Len() != 0 {
		t.Error("a watch of a changed value is registered")
	}
	if !r.Add([]byte("a"), nil, nil, 1) || !r.Add([]byte("a"), nil, nil, 2) {
		t.Error("a watch of an unchanged value is not registered")
	}
	r.Remove([]byte("a"), 1)
	r.Remove([]byte("a"), 1)
	r.Remove([]byte("b"), 2)
	if r.Len() != 1 || r.keys.Len() != 1 {
		t.Errorf("%d watches of %d keys left, want 1", r.Len(), r.keys.Len())
	}
}
