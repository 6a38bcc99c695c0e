package archive_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/adapters/archive"
	"couchrelay/adapters/embedded"
	"couchrelay/core/kv"
)

const (
	benchRows  = 400_000
	benchValue = 250 // bytes of a row, as records of jobs are
)

// filled is a store with rows that compress like JSON does.
func filled(b *testing.B, dir string) *embedded.Database {
	db, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < benchRows; i += 5000 {
		err := kv.Do(b.Context(), db, func(tx kv.Tx) error {
			for n := range 5000 {
				value := fmt.Sprintf(`{"source":"https://h%x.example.com/db","state":"pending","rep_id":"%016x%016x"`,
					rng.Uint32(), rng.Uint64(), rng.Uint64())
				for len(value) < benchValue {
					value += fmt.Sprintf(`,"member":%d`, rng.Uint32())
				}
				tx.Set(fmt.Appendf(nil, "couchrelay/jobs/replication/job/%016x|%08d", i*7919, n), []byte(value))
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return db
}

// toFile writes a backup into a file, and has it on the disk.
func toFile(db *embedded.Database, path string) (n int64, err error) {
	moment, err := db.Moment()
	if err != nil {
		return 0, err
	}
	defer moment.Close()
	file, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	w, err := archive.NewWriter(file, archive.Head{})
	if err == nil {
		err = moment.Rows(w.Row)
	}
	if err == nil {
		_, err = w.Close()
	}
	err = errors.Join(err, file.Sync())
	info, wrong := file.Stat()
	if err = errors.Join(err, wrong, file.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// copied writes as many bytes as the store's directory has into a file, as cp does, and has it on the disk.
func copied(dir, path string) (n int64, err error) {
	to, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range names {
		from, wrong := os.Open(name)
		if wrong != nil {
			continue // a table that was compacted away
		}
		m, wrong := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 1<<20))
		n += m
		err = errors.Join(err, wrong, from.Close())
	}
	return n, errors.Join(err, to.Sync(), to.Close())
}

// BenchmarkBackup measures backups against plain copies of the directory, and commits of one row each by eight
// committers while backups are written against commits without.
func BenchmarkBackup(b *testing.B) {
	dir := b.TempDir()
	db := filled(b, dir)
	defer db.Close()
	var ours, theirs time.Duration
	var size, plain int64
	for b.Loop() {
		start := time.Now()
		var err error
		if plain, err = copied(dir, filepath.Join(b.TempDir(), "copy")); err != nil {
			b.Fatal(err)
		}
		theirs += time.Since(start)
		start = time.Now()
		if size, err = toFile(db, filepath.Join(b.TempDir(), "backup")); err != nil {
			b.Fatal(err)
		}
		ours += time.Since(start)
	}
	quiet := commits(b, db, func() { time.Sleep(3 * time.Second) })
	busy := commits(b, db, func() {
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
			if _, err := toFile(db, filepath.Join(b.TempDir(), "backup")); err != nil {
				b.Error(err)
			}
		}
	})
	n := float64(b.N)
	b.ReportMetric(float64(size)*n/ours.Seconds()/1e6, "MB/s")
	b.ReportMetric(float64(plain)*n/theirs.Seconds()/1e6, "copy-MB/s")
	b.ReportMetric(float64(size)/float64(plain), "size-of-directory")
	b.ReportMetric(ours.Seconds()/theirs.Seconds(), "time-of-copy")
	b.ReportMetric(busy/quiet, "commits-of-quiet")
}

// commits are how many a second are made while f goes on.
func commits(b *testing.B, db kv.Database, f func()) float64 {
	ctx, stop := context.WithCancel(b.Context())
	var n atomic.Int64
	var all sync.WaitGroup
	for c := range 8 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				err := kv.Do(b.Context(), db, func(tx kv.Tx) error {
					tx.Set(fmt.Appendf(nil, "load/%d/%d", c, i), make([]byte, benchValue))
					return nil
				})
				if err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	start := time.Now()
	f()
	took := time.Since(start)
	stop()
	all.Wait()
	return float64(n.Load()) / took.Seconds()
}
