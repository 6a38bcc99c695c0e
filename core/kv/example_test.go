package kv_test

import (
	"context"
	"fmt"

	"couchrelay/core/kv"
	"couchrelay/sim/fakefdb"
)

// Run repeats a function until its transaction commits. Here another client changes what the first attempt
// has read, so that its commit conflicts and a second attempt reads the new value.
func ExampleRun() {
	ctx, db := context.Background(), fakefdb.New()
	stock := []byte("stock")
	set := func(value string) {
		_ = kv.Do(ctx, db, func(tx kv.Tx) error { tx.Set(stock, []byte(value)); return nil })
	}
	set("apples")

	attempts := 0 // for this example only: a function given to Run changes nothing but the store
	before, err := kv.Run(ctx, db, func(tx kv.Tx) (string, error) {
		value, err := tx.Get(stock)
		if err != nil {
			return "", err
		}
		if attempts++; attempts == 1 {
			set("pears")
		}
		tx.Set(stock, append(value, " and plums"...))
		return string(value), nil
	})
	fmt.Println("attempts:", attempts)
	fmt.Println("found:", before, err)

	after, err := kv.Run(ctx, db, func(tx kv.Tx) ([]byte, error) { return tx.Get(stock) })
	fmt.Printf("left: %s %v\n", after, err)
	// Output:
	// attempts: 2
	// found: pears <nil>
	// left: pears and plums <nil>
}

// A watch tells that a key may have changed since its transaction read it. It takes effect with the commit.
func ExampleWatch() {
	ctx, db := context.Background(), fakefdb.New()
	key := []byte("door")
	watch, err := kv.Run(ctx, db, func(tx kv.Tx) (kv.Watch, error) { return tx.Watch(key), nil })
	fmt.Println("watching:", err)

	err = kv.Do(ctx, db, func(tx kv.Tx) error { tx.Set(key, []byte("open")); return nil })
	fmt.Println("changed:", err)
	fmt.Println("told:", watch.Wait(ctx))
	// Output:
	// watching: <nil>
	// changed: <nil>
	// told: <nil>
}
