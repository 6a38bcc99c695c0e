package seal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Options of a Keeper.
type Options struct {
	File    string // of the keys; empty for none
	Encrypt bool   // whether values are sealed; if not, sealed ones are written plain again in the background
	// Create has the file made if it is not there and the store needs no key yet.
	Create bool
	// Exclusive says that no other process uses the store, so the Keeper may draw keys and drop them.
	Exclusive bool
	Logger    *slog.Logger // nil: none
}

// Keeper has a Database's ring follow a key file, and the store follow the ring. It keeps rows of its own below
// ("seal") of the root:
//
//	("seal", "key", id)   a key that sealed values in the store: a text sealed with it
//	("seal", "pass")      how far the store is rewritten with the first key; see pass
type Keeper struct {
	Options
	db    *Database
	below kv.Database
	space tuple.Subspace
	wake  chan struct{} // has an element when there may be something to rewrite

	changing sync.Mutex // held while the ring changes; it guards the fields below
	changed  time.Time  // when the ring changed last
}

// NewKeeper returns the keeper of a database. Check and Register have to succeed before the database is used.
func NewKeeper(db *Database, o Options) *Keeper {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Keeper{Options: o, db: db, below: db.Database, space: tuple.Subspace(db.rows.Root).Sub("seal"),
		wake: make(chan struct{}, 1)}
}

// ErrNoKeys is the error of a store of several processes that has neither keys nor the word that it needs none.
var ErrNoKeys = errors.New("[secrets] key_file: is needed for a new store on FoundationDB, the same on all nodes " +
	"(openssl rand -hex 32 makes a key); encrypt = false stores the credentials of endpoints in clear")

// proof is what is sealed in the row of a key.
const proof = "couchrelay"

// Check loads the keys, and fails unless all are there that the store needs. It writes nothing into the store, but
// makes the key file if it may.
func (k *Keeper) Check(ctx context.Context) error {
	k.changing.Lock()
	defer k.changing.Unlock()
	needed, err := k.registered(ctx)
	if err != nil {
		return err
	}
	keys, err := k.load(len(needed) > 0)
	if err != nil {
		return err
	}
	if k.File == "" && len(needed) == 0 && k.Encrypt {
		if err := k.plain(ctx); err != nil {
			return err
		}
	}
	if err := verify(k, k.File, keys, needed); err != nil {
		return err
	}
	k.use(keys)
	return nil
}

// Try returns why a process could not start with another key file, nil if it could. made reports whether a start makes
// the file if it is not there.
func (k *Keeper) Try(ctx context.Context, file string, made bool) error {
	needed, err := k.registered(ctx)
	if err != nil {
		return err
	}
	keys, err := ReadFile(file)
	if isAbsent(err) && len(needed) == 0 && made {
		return nil
	}
	return cmp.Or(err, verify(k, file, keys, needed))
}

// load reads the key file.
func (k *Keeper) load(needed bool) ([]Key, error) {
	if k.File == "" {
		return nil, nil
	}
	keys, err := ReadFile(k.File)
	switch {
	case err == nil || !isAbsent(err):
		return keys, err
	case needed:
		return nil, fmt.Errorf("%w; the store holds values that only its keys open: put the file back, from the copy "+
			"that was kept apart", err)
	case !k.Encrypt:
		return nil, nil
	case !k.Create:
		return nil, fmt.Errorf("%w; [secrets] key_file must name a file with a key, as "+
			"(umask 077; openssl rand -hex 32 > FILE) makes one", err)
	}
	keys = []Key{NewKey()}
	if err := WriteFile(k.File, keys); err != nil {
		return nil, fmt.Errorf("%w; [secrets] key_file names another place", err)
	}
	k.Logger.Info("secrets_key_made", "file", k.File, "key", keys[0].id,
		"detail", "without this file the credentials in the store are lost: keep a copy apart from copies of the store")
	return keys, nil
}

// plain allows that a store without keys goes on without, unless it is new and shared.
func (k *Keeper) plain(ctx context.Context) error {
	rows, err := kv.Run(ctx, k.below, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(kv.PrefixRange(k.db.rows.Root), kv.RangeOptions{Limit: 1})
	})
	switch {
	case err != nil:
		return err
	case len(rows) == 0 && !k.Exclusive:
		return ErrNoKeys
	}
	k.Logger.Warn("secrets_in_clear", "detail", "the credentials of endpoints are stored in clear: once all nodes run "+
		"this release, set [secrets] key_file on all of them, or encrypt = false to keep it so")
	return nil
}

// verify returns an error unless all keys are in a file that the store needs.
func verify(k *Keeper, file string, keys []Key, needed map[ID][]byte) error {
	trial := &Ring{}
	trial.Set(file, keys, false)
	var errs []error
	for id, sealed := range needed {
		text, err := trial.open(k.row(id), sealed)
		if errors.Is(err, ErrForged) || err == nil && string(text) != proof {
			err = fmt.Errorf("key %s in %s is not the one that sealed the store, though it has its id", id, file)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the store cannot be opened: %w", err)
	}
	return nil
}

// use has the ring use keys from now on.
func (k *Keeper) use(keys []Key) {
	k.db.Ring.Set(k.File, keys, k.Encrypt)
	k.changed = time.Now()
}

func (k *Keeper) keyRow(id ID) []byte { return k.space.Pack("key", id.String()) }

// row is what binds the proof to the row of a key.
func (k *Keeper) row(id ID) []byte { return k.db.rows.name(k.keyRow(id)) }

// registered returns the proofs of the keys that values in the store may be sealed with.
func (k *Keeper) registered(ctx context.Context) (map[ID][]byte, error) {
	rows, err := kv.Run(ctx, k.below, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(k.space.Sub("key").Range(), kv.RangeOptions{})
	})
	if err != nil {
		return nil, err
	}
	found := map[ID][]byte{}
	for _, row := range rows {
		if id, is := sealedWith(row.Value); is {
			found[id] = row.Value
		}
	}
	return found, nil
}

// Register notes in the store that the first key is needed from now on, and calls sealed in the same transaction, for
// the layout's version. Without a key that seals it does nothing.
func (k *Keeper) Register(ctx context.Context, sealed func(kv.Tx)) error {
	if _, err := register(ctx, k, sealed); err != nil {
		return err
	}
	k.kick()
	return nil
}

// register notes the first key in the store, if it seals, and reports whether it was not noted yet. It leaves what is
// stored as it is.
func register(ctx context.Context, k *Keeper, sealed func(kv.Tx)) (is bool, err error) {
	id, seals := k.db.Ring.First()
	if !seals {
		return false, nil
	}
	is, err = kv.Run(ctx, k.below, func(tx kv.Tx) (bool, error) {
		if old, err := tx.Get(k.keyRow(id)); err != nil || old != nil {
			return false, err
		}
		tx.Set(k.keyRow(id), k.db.Ring.seal(k.row(id), []byte(proof)))
		sealed(tx)
		return true, nil
	})
	if err != nil {
		return false, fmt.Errorf("register key %s: %w", id, err)
	}
	return is, nil
}

// Affirm registers the key that seals here again if another process has dropped it: no row needed it then, but this
// process was not told of the key that took its place, and goes on sealing. So no process starts, nor reads a new key
// file, without the key of what was sealed since.
func (k *Keeper) Affirm(ctx context.Context) error {
	again, err := register(ctx, k, func(kv.Tx) {})
	if again {
		k.Logger.Warn("secrets_key_in_use", "key", k.target(), "detail", "rekey --drop on another node forgot this "+
			"key, which still encrypts here: it is needed until this node has read the new key file")
	}
	return err
}

// kick has Run look whether there is something to rewrite.
func (k *Keeper) kick() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Reload reads the key file again. A file that is faulty, or lacks a key that the store needs, changes nothing.
func (k *Keeper) Reload(ctx context.Context) error {
	k.changing.Lock()
	defer k.changing.Unlock()
	return k.reload(ctx)
}

func (k *Keeper) reload(ctx context.Context) error {
	if k.File == "" {
		return nil
	}
	keys, err := ReadFile(k.File)
	if isAbsent(err) && !k.Encrypt {
		return nil
	}
	if err != nil {
		return err
	}
	if err := k.Affirm(ctx); err != nil {
		return err
	}
	needed, err := k.registered(ctx)
	if err != nil {
		return err
	}
	if err := verify(k, k.File, keys, needed); err != nil {
		return err
	}
	if _, has := needed[keys[0].id]; !has && k.Encrypt {
		if err := k.introduce(ctx, keys[0]); err != nil {
			return err
		}
	}
	before, _ := k.db.Ring.First()
	if keys[0].id != before && k.Encrypt {
		k.Logger.Info("secrets_key", "file", k.File, "key", keys[0].id, "detail", "values are sealed with it from now")
	}
	k.use(keys)
	k.kick()
	return nil
}

// introduce registers a key before it seals anything.
func (k *Keeper) introduce(ctx context.Context, first Key) error {
	r := &Ring{}
	r.Set(k.File, []Key{first}, true)
	return kv.Do(ctx, k.below, func(tx kv.Tx) error {
		tx.Set(k.keyRow(first.id), r.seal(k.row(first.id), []byte(proof)))
		return nil
	})
}

// ErrShared says how a fleet gets a new key.
var ErrShared = errors.New("this store is shared, so the service does not change the key file: add a line with the " +
	"new key (openssl rand -hex 32) at the end of the file on all nodes and reload each, then move it to the first " +
	"line on all nodes and reload each")

// ErrNoFile is the error of a change of keys without a key file.
var ErrNoFile = errors.New("values are not sealed here: [secrets] key_file and encrypt")

// ErrManyKeys is the error of a new key for a file that has as many as it may.
var ErrManyKeys = fmt.Errorf("the key file has %d keys already, and no more are read: first forget those that no row "+
	"needs any more (rekey --drop)", maxKeys)

// Rekey has another key seal from now on: the first one of the file if that has changed, otherwise a new one. What is
// stored is rewritten by Run.
func (k *Keeper) Rekey(ctx context.Context) error {
	k.changing.Lock()
	defer k.changing.Unlock()
	if k.File == "" || !k.Encrypt {
		return ErrNoFile
	}
	keys, err := ReadFile(k.File)
	if err != nil {
		return err
	}
	if now, _ := k.db.Ring.First(); keys[0].id == now {
		switch {
		case !k.Exclusive:
			return ErrShared
		case len(keys) >= maxKeys:
			return ErrManyKeys
		}
		if err := WriteFile(k.File, append([]Key{NewKey()}, keys...)); err != nil {
			return err
		}
	}
	return k.reload(ctx)
}

// LateCommits is how long after a change of keys a transaction may still commit that sealed with the one before.
// Tests shorten it.
var LateCommits = 2 * kv.MaxTxSeconds * time.Second

// Drop forgets the keys that no row needs any more: they are no longer registered, and of a store that is not shared
// they are taken out of the file. It returns those that are still needed besides the first.
func (k *Keeper) Drop(ctx context.Context) (dropped, needed []ID, err error) {
	k.changing.Lock()
	defer k.changing.Unlock()
	if k.File == "" {
		return nil, nil, ErrNoFile
	}
	since := k.changed
	if !k.Exclusive { // others may have changed theirs just now
		since = time.Now()
	}
	select {
	case <-time.After(time.Until(since.Add(LateCommits))):
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	first, seals := k.db.Ring.First()
	known, err := k.registered(ctx)
	if err != nil {
		return nil, nil, err
	}
	census, err := k.count(ctx)
	if err != nil {
		return nil, nil, err
	}
	if k.Exclusive {
		for _, id := range k.db.Ring.ids() { // also those of a drop that came no further than the store
			known[id] = nil
		}
	}
	for id := range census.By { // also those of a process that sealed after its key was dropped
		known[id] = nil
	}
	for id := range known {
		switch {
		case seals && id == first:
		case census.By[id] > 0:
			needed = append(needed, id)
		default:
			dropped = append(dropped, id)
		}
	}
	if len(needed) > 0 {
		err = k.again(ctx)
	}
	if err == nil && len(dropped) > 0 {
		err = k.forget(ctx, dropped)
	}
	return dropped, needed, err
}

// forget takes keys out of the store and, if it is not shared, out of the file, in this order: a service does not start
// without a key that the store asks for.
func (k *Keeper) forget(ctx context.Context, ids []ID) error {
	err := kv.Do(ctx, k.below, func(tx kv.Tx) error {
		for _, id := range ids {
			tx.Clear(k.keyRow(id))
		}
		return nil
	})
	if err != nil || !k.Exclusive || !k.Encrypt {
		return err
	}
	keys, err := ReadFile(k.File)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(keys, func(key Key) bool { return slices.Contains(ids, key.id) })
	if err := WriteFile(k.File, kept); err != nil {
		return err
	}
	if err := k.reload(ctx); err != nil {
		return err
	}
	k.Logger.Info("secrets_keys_dropped", "file", k.File, "keys", strings.Join(Texts(ids), ", "))
	return nil
}

// Texts are the ids as texts, in order.
func Texts(ids []ID) []string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = id.String()
	}
	slices.Sort(list)
	return list
}
