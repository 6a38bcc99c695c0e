package main

import (
	"os"
	"strings"

	"couchrelay/adapters/top"

	"github.com/alecthomas/kong"
)

// variables are those of kong, which reads each of them once more for each flag of each command: so they are few.
var variables = kong.Vars{
	"terminal_uuid": terminalUUID, "server": "http://127.0.0.1:5980", "top_sorts": strings.Join(top.Sorts, ","),

	"json":        "Print the service's answer as it is, one JSON value.",
	"json_backup": "Print how many rows and bytes were written, as a JSON object.",
	"json_check":  "Print a JSON object for each finding, and one for the summary.",
	"json_none":   "Refused: there is no answer of the service to print.",
	"json_top":    "Print an object a line for each interval, until interrupted.",
}

// sentences are what the help says of commands, flags and arguments, where that is too long for their fields.
var sentences = map[string]string{
	"backup":              "Write a backup of the embedded store.",
	"import":              "Take the replications of a CouchDB over.",
	"backup_file":         "The backup, which is replaced once the new one is whole; - for standard output.",
	"backup_store":        "Open this store itself, instead of asking a service.",
	"ca_file":             "PEM file of the certificates to trust instead of the system's.",
	"check_store":         "Open this store itself, a directory or fdb:CLUSTERFILE, instead of asking a service.",
	"choice_doc_ids":      `Only documents with these ids; a comma in an id is written \,.`,
	"choice_query_param":  "A parameter of the filter function; may be repeated.",
	"commands_completion": "Print a script that completes commands in a shell.",
	"config_key":          "Only this section, or this key of it.",
	"config_local_config": "What requests have set, NAME.local.ini beside the last NAME.ini of --config if not told.",
	"credentials": "only its owner may read it. Else the user in --server counts, or COUCHRELAY_USER and " +
		"COUCHRELAY_PASSWORD.",
	"docs_database":         "The replicator database, or * for all.",
	"filter":                "Only what this filter function of the source lets pass: DDOC/NAME, or a built-in one.",
	"filters_state":         "Only jobs in these states, such as crashing,paused.",
	"man_command":           "A command, or couchrelay.ini; else all of couchrelay.",
	"man_directory":         "Write all pages into man1 and man5 of this directory.",
	"move_couch_db":         "URL of the CouchDB with an admin; the password may be in COUCHDB_PASSWORD.",
	"network_proxy":         "Proxy for both servers, with the scheme http, https or socks5.",
	"network_timeout":       "How long a server may be silent before a request has failed; by default 30s.",
	"remote_server":         "The service: any of its nodes.",
	"remote_timeout":        "The longest wait for an answer, such as 90s or 2m.",
	"opening_local_config":  "What requests have set, for --store, where serve has this flag.",
	"replicate_compression": "Whether documents travel to the target compressed: auto while that is faster.",
	"replicate_on_refusal": "What to do with documents that the target refuses: skip leaves them out, fail ends at " +
		"the first, retry tries them again, and has later calls do so.",
	"replicate_since_seq": "Start behind this update sequence of the source, if there is no checkpoint.",
	"replicate_uuid": "Server uuid that goes into the replication id; that of a CouchDB server continues its " +
		"checkpoints.",
	"replicate_workers": "How many batches of changes are in flight at once; if not told, 4 at the servers, and more " +
		"on the way to them while these are far away.",
	"restore_store":      "The store: a directory that is empty but for secret.key.",
	"serve_config":       "Configuration file, CouchDB's INI; may be repeated: later ones win.",
	"serve_local_config": "Keeps what requests to _config set; NAME.local.ini beside NAME.ini if not told.",
	"serve_name":         "Name of this node among those that share the store; the host's if not told.",
	"serve_record": "Write all that the node is told and decides into this new file, for couchsim replay " +
		"--log.",
	"serve_record_limit":  "Largest size of that file in MB, after which nothing more is recorded; 0 for no limit.",
	"serve_sandbox":       "Serve databases in memory on this TCP port too, to try things with.",
	"serve_store":         "Where jobs are kept: a directory, or fdb:CLUSTERFILE for a FoundationDB cluster.",
	"storecommands_check": "Check that all rows of the store fit together, and repair it.",
	"top":                 "Show jobs, nodes and rates, live.",
	"top_interval":        "The time between two looks at the service, from 500ms to 1h.",
	"top_sort":            "The column by which the jobs of a page are sorted.",
	"verify_replication": "Compare what this replication document copies, instead of SOURCE and TARGET; - is " +
		"standard input.",
}

// withSentences puts the sentences into the help of all commands, flags and arguments.
func withSentences(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		switch node := node.(type) {
		case *kong.Node:
			node.Help = os.Expand(node.Help, sentence)
		case *kong.Value:
			node.Help = os.Expand(node.Help, sentence)
		}
		return next(nil)
	})
}

// sentence returns the sentence of a name, or leaves the name to kong.
func sentence(name string) string {
	if text, ok := sentences[name]; ok {
		return text
	}
	return "${" + name + "}"
}
