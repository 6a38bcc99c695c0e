//go:build fdb

package fdb

import "couchrelay/core/kv"

// hints tell an operator what to do about an error of FoundationDB, by its code.
var hints = map[kv.Code]string{
	kv.TransactionTooOld: "the cluster or this machine is too slow for transactions of five seconds: " +
		"see fdbcli's status for lagging storage servers",
	kv.FutureVersion: "a storage server lags behind: see fdbcli's status",
	kv.ProcessBehind: "a storage server lags behind: see fdbcli's status",
	kv.DatabaseLocked: "a restore or an operator has locked the database: " +
		"wait, or unlock it in fdbcli",
	kv.ProxyMemoryExceeded: "the cluster is overloaded: add commit proxies, or lower [replicator] max_jobs",
	kv.GRVMemoryExceeded:   "the cluster is overloaded: add GRV proxies, or lower [replicator] max_jobs",
	kv.BatchThrottled:      "the cluster is saturated and slows background work down",
	kv.TagThrottled:        "the cluster throttles this kind of transaction: see `throttle list` in fdbcli",
	kv.ProxyTagThrottled:   "the cluster throttles this kind of transaction: see `throttle list` in fdbcli",
	kv.TooManyWatches: "more than 10,000 changes feeds and workers wait on this node: " +
		"spread them over more nodes",
	kv.ClusterVersionChanged: "the cluster was upgraded: install the client library of its version " +
		"on this machine",
	kv.TransactionTimedOut: "a timeout is set on the client, by FDB_NETWORK_OPTION_... or in its options: " +
		"remove it",
	1500: "the client library met an error of the operating system: see its trace files",
	1511: "the cluster file is gone",
	1513: "the cluster file cannot be read: check its permissions",
	1514: "the client must be able to write the cluster file, whose coordinators can change: " +
		"check its permissions",
	1515: "there is no cluster file: give its path as --store fdb:PATH",
	2022: "a variable FDB_NETWORK_OPTION_... of the environment has a value that the client does not take: " +
		"see its trace files",
	2100: "the client library does not fit the cluster's version: install the one of the cluster",
	2104: "the cluster file is malformed: copy fdb.cluster from a machine of the cluster",
	2107: "TLS failed: check FDB_TLS_CERTIFICATE_FILE, FDB_TLS_KEY_FILE and FDB_TLS_CA_FILE",
	2110: "a transaction's tag has more than 16 bytes",
	2125: "no client library here fits the cluster's version: install the one of the cluster",
	2130: "the cluster requires tenants, which couchrelay does not use: " +
		"run `configure tenant_mode=optional_experimental` in fdbcli",
	2144: "the tenant is locked",
}

// storeError returns the error for a code of FoundationDB, with its hint.
func storeError(code kv.Code) error { return &kv.Error{Code: code, Hint: hints[code]} }
