package config

import "testing"

// TestRunMemory: a run that may hold less than a megabyte could not copy documents of ordinary sizes together.
func TestRunMemory(t *testing.T) {
	s := Default()
	if s.RunMemory != 16<<20 {
		t.Errorf("%d by default", s.RunMemory)
	}
	if err := s.Set("max_run_memory", "1000000"); err == nil || s.RunMemory != 16<<20 {
		t.Errorf("%v, %d", err, s.RunMemory)
	}
	if err := s.Set("max_run_memory", "67108864"); err != nil || s.RunMemory != 64<<20 {
		t.Errorf("%v, %d", err, s.RunMemory)
	}
}
