package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"couchrelay/adapters/archive"
	"couchrelay/adapters/durable"
	"couchrelay/adapters/embedded"
	"couchrelay/adapters/inspect"
	"couchrelay/adapters/terminal"
	"couchrelay/adapters/web/relay"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

// opening are the flags of commands that open a store themselves.
type opening struct {
	Config      []string `help:"The service's configuration, for --store." type:"existingfile" placeholder:"FILE"`
	LocalConfig string   `help:"${opening_local_config}" placeholder:"FILE" complete:"file"`
	KeyPrefix   string   `help:"Name below which all keys lie in the store, for --store." placeholder:"NAME"`
}

// backupCommand writes a backup.
type backupCommand struct {
	remote
	opening
	Store string `help:"${backup_store}" placeholder:"DIRECTORY" complete:"directory"`
	File  string `arg:"" complete:"file" help:"${backup_file}"`
}

// Help is kong's.
func (backupCommand) Help() string {
	return "Writes the embedded store as of one moment into a file, while the service goes on. Credentials stay " +
		"encrypted in it, and their key is not in it: keep a copy of secret.key apart. A store on FoundationDB is " +
		"backed up with fdbbackup. --timeout bounds how long nothing may come." + examples(
		"Every night, from the service of this machine:", "couchrelay backup /backups/relay.backup",
		"Compressed:", "couchrelay backup - | zstd > /backups/relay.backup.zst")
}

func (c *backupCommand) Run(w *window) error {
	began := time.Now()
	if c.File == "-" {
		_, err := c.write(w.to)
		return err
	}
	var tail archive.Tail
	err := durable.Replace(c.File, func(to io.Writer) (err error) {
		tail, err = c.write(to)
		return err
	})
	if err != nil {
		return fmt.Errorf("no backup was written: %w", err)
	}
	if c.JSON {
		return w.object("backup", tail)
	}
	_, err = fmt.Fprintf(w.to, "%d rows, %d bytes in %.1f s: %s\n", tail.Rows, tail.Bytes,
		time.Since(began).Seconds(), c.File)
	return err
}

// write writes the backup of a store, or of a service.
func (c *backupCommand) write(to io.Writer) (tail archive.Tail, err error) {
	if c.Store != "" {
		u, err := openUpkeep(c.Store, c.opening, false)
		if err != nil {
			return tail, err
		}
		defer u.db.Close()
		ctx, stop := untilSignal()
		defer stop() // what was written is removed first
		return u.Backup(ctx, to)
	}
	node, err := c.node()
	if err != nil {
		return tail, err
	}
	err = c.stream("POST", node+"/_backup", func(body io.Reader) error {
		copied := bufio.NewWriterSize(to, 1<<20)
		tail, err = passOn(io.TeeReader(body, copied))
		return cmp.Or(copied.Flush(), err) // a write that fails is no fault of the service
	})
	return tail, err
}

// passOn reads a backup to its end, so that one which is not whole is none.
func passOn(r io.Reader) (archive.Tail, error) {
	a, err := archive.NewReader(r)
	for err == nil {
		_, _, err = a.Next()
	}
	if err != io.EOF {
		return archive.Tail{}, fmt.Errorf("what the service sent: %w", err)
	}
	return a.Tail(), nil
}

// Backup is relay.Upkeep's.
func (u *upkeep) Backup(ctx context.Context, to io.Writer) (tail archive.Tail, err error) {
	moments, can := u.db.store.(inspect.Moments)
	if !can {
		return tail, relay.ErrNoBackup
	}
	moment, err := moments.Moment()
	if err != nil {
		return tail, err
	}
	defer moment.Close()
	h := archive.Head{Release: version, Made: time.Now().UTC().Truncate(time.Second), KeyPrefix: u.prefix,
		Version: moment.Version()}
	if h.UUID, h.Schema, err = jobstore.Identity(moment, jobstore.KeysBelow(rootOf(u.prefix))); err != nil {
		return tail, err
	}
	w, err := archive.NewWriter(to, h)
	if err != nil {
		return tail, err
	}
	if err := moment.Rows(func(key, value []byte) error {
		return errors.Join(ctx.Err(), w.Row(key, value))
	}); err != nil {
		return tail, err
	}
	return w.Close()
}

// restoreCommand makes a store of a backup.
type restoreCommand struct {
	opening
	Store string `required:"" help:"${restore_store}" placeholder:"DIRECTORY" complete:"directory"`
	JSON  bool   `name:"json" help:"Print a JSON object for each finding and for the summary."`
	File  string `arg:"" complete:"file" help:"The backup; - for standard input."`
}

// Help is kong's.
func (restoreCommand) Help() string {
	return "Makes a store of a backup, in an empty directory, and checks it. Put the key of the store's credentials, " +
		"secret.key, into the directory, or where [secrets] key_file says, before that.\n\nExit status: 0 the store " +
		"is made and sound; 1 something is wrong with it; 2 it could not be made or checked." + examples(
		"With the key of its credentials:", "install -D -m 0600 secret.key /var/lib/couchrelay/store/secret.key",
		"Then:", "couchrelay restore /backups/relay.backup --store /var/lib/couchrelay/store")
}

func (c *restoreCommand) Run(w *window) error {
	if err := c.restore(w); err != nil {
		return statusError{err, unchecked}
	}
	look := checkCommand{remote: remote{JSON: c.JSON}, Store: c.Store, opening: c.opening}
	return look.Run(w)
}

// restore makes the store.
func (c *restoreCommand) restore(w *window) error {
	if strings.HasPrefix(c.Store, "fdb:") {
		return errors.New("--store: a backup becomes a directory; FoundationDB is restored with fdbrestore")
	}
	if err := noFile(c.Store); err != nil {
		return err
	}
	file := os.Stdin
	if c.File != "-" {
		var err error
		if file, err = os.Open(c.File); err != nil { // of a pipe it waits for the program that writes it
			return err
		}
		defer file.Close()
	}
	ctx, stop := untilSignal()
	defer stop()
	a, err := archive.NewReader(bufio.NewReaderSize(abandonable{ctx, file}, 1<<20))
	if errors.Is(err, archive.ErrForeign) {
		err = fmt.Errorf("%w; it takes what couchrelay backup writes, uncompressed", err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if a.Head.Schema > jobstore.NewestSchema {
		return jobstore.ErrSchema
	}
	fill := func(put func(key, value []byte) error) error {
		for {
			key, value, err := a.Next()
			switch {
			case err == io.EOF:
				return nil
			case err != nil:
				return err
			}
			if err := errors.Join(ctx.Err(), put(key, value)); err != nil {
				return err
			}
		}
	}
	keepPrivate()
	err = embedded.Restore(c.Store, embedded.Options{}, a.Head.Version, fill, func(db *embedded.Database) error {
		return reincarnate(ctx, db, a.Head.KeyPrefix)
	})
	if err != nil || c.JSON {
		return err
	}
	_, err = fmt.Fprintf(w.to, "%d rows of %s, server uuid %s, restored into %s\n", a.Tail().Rows,
		a.Head.Made.Format(time.RFC3339), terminal.Clean(a.Head.UUID), c.Store)
	return err
}

// abandonable is a reader that returns the error of ctx once ctx has ended, though the reader below still waits: the
// program at the other end of a pipe may be silent.
type abandonable struct {
	ctx  context.Context
	from io.Reader
}

// Read is io.Reader's.
func (a abandonable) Read(b []byte) (int, error) {
	var n int
	var err error
	got := make([]byte, len(b)) // b is the caller's again once ctx has ended
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err = a.from.Read(got)
	}()
	select {
	case <-done:
		return copy(b, got[:n]), err
	case <-a.ctx.Done():
		return 0, a.ctx.Err()
	}
}

// reincarnate has changes of jobs come after all that there were before the backup, and after those that were lost with
// the store.
func reincarnate(ctx context.Context, db kv.Database, prefix string) error {
	return kv.Do(ctx, db, func(tx kv.Tx) error {
		return jobstore.KeysBelow(rootOf(prefix)).Jobs.Reincarnate(tx)
	})
}
