package resolver

import "testing"

// TestConflictsAreWithLaterWrites: a read conflicts with every write after its version, and with no other, however many
// there are.
func TestConflictsAreWithLaterWrites(t *testing.T) {
	const n = 20
	key := func(i int64) []byte { return []byte{byte(i)} }
	for name, end := range map[string]func(int64) []byte{
		"ranges": func(i int64) []byte { return key(i + 1) }, "keys": func(int64) []byte { return nil },
	} {
		var log Log
		for i := int64(1); i <= n; i++ {
			log.Record(i, []Span{{Begin: key(i), End: end(i)}})
		}
		for read := int64(0); read <= n; read++ {
			for i := int64(1); i <= n; i++ {
				for _, at := range []Span{{Begin: key(i)}, {Begin: key(i), End: key(i + 1)}} {
					if got := log.Conflicts(read, []Span{at}); got != (i > read) {
						t.Errorf("%s: a read at %d of what was written at %d: conflict %v", name, read, i, got)
					}
				}
			}
		}
	}
}
