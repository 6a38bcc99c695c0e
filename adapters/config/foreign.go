package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/config"
	"couchrelay/core/spelling"
)

// foreign has the keys of CouchDB 3.5's configuration that concern a database server, by section. A section with * may
// have any key. A key that couchrelay has itself is its own, whether it is here or not.
var foreign = map[string]string{
	"attachments":                  "compressible_types compression_level",
	"bt_engine_cache":              "db_btree_cache_depth leave_percent max_size",
	"chttpd":                       chttpdKeys,
	"chttpd_auth":                  authKeys,
	"chttpd_auth_cache":            "max_lifetime max_objects max_size",
	"cluster":                      "n placement q reconnect_interval_sec seedlist",
	"cors":                         "credentials headers max_age methods origins",
	"couch_passwords_cache":        "enable max_idle max_objects",
	"couch_peruser":                "database_prefix delete_dbs enable q",
	"couch_quickjs_scanner_plugin": "*", "couch_scanner": "*", "couch_scanner_plugin_conflict_finder": "*",
	"couch_scanner_plugin_ddoc_features": "*", "couch_scanner_plugin_find": "*", "couch_scanner_plugins": "*",
	"couchdb": couchdbKeys, "couchdb_engines": "*",
	"csp": "attachments_enable attachments_header_value enable header_value showlist_enable showlist_header_value " +
		"utils_enable utils_header_value",
	"custodian": "*", "daemons": "*", "database_compaction": "*", "ddoc_cache": "*", "disk_monitor": "*",
	"dreyfus": "*", "fabric": "*", "feature_flags": "*", "global_changes": "*",
	"httpd": chttpdKeys + " WWW-Authenticate enable", "httpd_design_handlers": "*", "indexers": "*", "ioq": "*",
	"log": "file filter_fields max_message_size report_level strip_last_msg syslog_appid " +
		"syslog_enterprise_number syslog_facility syslog_host syslog_port write_buffer write_delay writer",
	"mango": "*", "mem3": "*", "native_query_servers": "*", "nouveau": "*", "nouveau_index_upgrader": "*",
	"process_priority": "*", "prometheus": "additional_port bind_address interval port", "purge": "*",
	"query_server_config": "*", "query_servers": "*", "quickjs": "*", "reshard": "*", "rexi": "*", "smoosh": "*",
	"ssl": "cacert_file cert_file ciphers ecc_curves enable fail_if_no_peer_cert key_file password port " +
		"secure_renegotiate signature_algs ssl_certificate_max_depth tls_versions verify_fun verify_ssl_certificates",
	"stats": "*", "uuids": "*", "vendor": "*", "vhosts": "*", "view_compaction": "*", "view_updater": "*",
	"view_upgrade": "*", "x_frame_options": "hosts same_origin",
}

const (
	chttpdKeys = "admin_only_all_dbs allow_jsonp authentication_handlers backlog bind_address buffer_response " +
		"bulk_get_use_batches changes_timeout chunked_response_buffer config_whitelist decode_plus_to_space " +
		"default_handler disconnect_check_jitter_msec disconnect_check_msec enable_cors enable_xframe_options " +
		"max_connections max_db_number_for_dbs_info_req max_http_request_size max_uri_length port prefer_minimal " +
		"redirect_vhost_handler require_valid_user require_valid_user_except_for_up rewrite_limit " +
		"scrub_json_request secure_rewrites server_header_versions server_options socket_options stats_reporter " +
		"valid_hosts validate_host vhost_global_handlers x_forwarded_host x_forwarded_proto x_forwarded_ssl"
	authKeys = "allow_persistent_cookies auth_cache_size authentication_db authentication_redirect cookie_domain " +
		"hash_algorithms iterations max_iterations min_iterations password_regexp password_scheme pbkdf2_prf " +
		"proxy_use_secret public_fields require_valid_user same_site secret timeout upgrade_hash_on_auth " +
		"users_db_public x_auth_roles x_auth_token x_auth_username"
	couchdbKeys = "attachment_stream_buffer_size attachment_writer_timeout btree_chunk_size cfile_skip_ioq " +
		"changes_doc_ids_optimization_threshold compaction_log_level database_dir default_engine " +
		"default_security delayed_commits delete_after_rename enable_database_recovery file_compression " +
		"fsync_options index_cleanup_delay_msec js_engine max_attachment_size max_dbs_open max_document_id_length " +
		"max_document_size max_partition_size os_process_timeout plugin_dir prohibit_downgrade read_repair_lag " +
		"single_node stem_interactive_updates update_lru_on_read uri_file use_cfile users_db_security_editable " +
		"users_db_suffix util_driver_dir view_index_dir write_xxhash_checksums"
)

// unfilled is the key that default.ini of every CouchDB has without a value. CouchDB reads such a line as none; here
// that is a mistake for any other key.
var unfilled = Name{"couchdb", "uuid"}

// ErrForeign is the error of a key that only CouchDB has. Files may have such keys, which are skipped and listed.
var ErrForeign = errors.New("concerns a database server, and means nothing to couchrelay")

// foreignKeys returns the keys that CouchDB has in a section, and whether it has the section. Sections such as
// smoosh.ratio_dbs and cors:http://example.com are those of a part of what their first word names.
func foreignKeys(section string) ([]string, bool) {
	if i := strings.IndexAny(section, ".:"); i >= 0 && section != "replicator.shares" {
		section = section[:i]
	}
	keys, has := foreign[section]
	return strings.Fields(keys), has
}

// alternatives are why couchrelay does not have keys of CouchDB's that concern it, and what there is instead.
var alternatives = map[Name]string{
	{"ssl", "verify_fun"}: "names a function in Erlang; cacert_file and ssl_certificate_max_depth say which " +
		"certificates of clients are accepted",
	{"ssl", "signature_algs"}: "cannot be chosen; those that are not safe are not accepted",
}

// isForeign reports whether only CouchDB has this key.
func isForeign(n Name) bool {
	keys, _ := foreignKeys(n.Section)
	return slices.Contains(keys, n.Key) || slices.Equal(keys, []string{"*"})
}

// unknown is the error of a key that a section of the table does not have.
func unknown(n Name) error {
	if why, is := alternatives[n]; is {
		return fmt.Errorf("%s: %w", n, refusal(why))
	}
	if isForeign(n) {
		return fmt.Errorf("%s: %w", n, ErrForeign)
	}
	known, _ := foreignKeys(n.Section)
	known = slices.Sorted(slices.Values(append(known, sections[n.Section].Names()...)))
	return config.NoSuchKey(n.Section, n.Key, slices.Compact(known))
}

// skip notes what a section means that couchrelay does not have: nothing. One whose name is near to one that
// couchrelay has is an error.
func (c *Config) skip(s section) error {
	if err := misnamed(s.name); err != nil {
		return fmt.Errorf("line %d: %w", s.line, err)
	}
	list := &c.Ignored
	if _, has := foreignKeys(s.name); has {
		list = &c.Skipped
	} else if near := spelling.Nearest(s.name, known()); slices.Contains(Sections(), near) {
		return fmt.Errorf("line %d: [%s]: no such section; the nearest is [%s]", s.line, s.name, near)
	}
	note(list, "["+s.name+"]")
	return nil
}

// misnamed is the error of a section that is one of [tls NAME] or [follow NAME] but for its NAME.
func misnamed(section string) error {
	switch kind, _, _ := strings.Cut(section, " "); kind + " " {
	case tlsPrefix:
		return fmt.Errorf("[%s]: must be [%sNAME], with a NAME of 1 to 100 letters of ASCII, digits and ._-", section,
			tlsPrefix)
	case followPrefix:
		return fmt.Errorf("[%s]: must be [%sNAME], with a NAME of lowercase letters of ASCII, digits and _$()+- that "+
			"begins with a letter", section, followPrefix)
	}
	return nil
}

// known are the names of couchrelay's sections, and of CouchDB's.
func known() []string { return append(Sections(), slices.Sorted(maps.Keys(foreign))...) }

// skipped names a key that is skipped; with its value where another one would not be.
func skipped(n Name, value string) string {
	if Exists(n) && !IsSecret(n) {
		return n.String() + " = " + value
	}
	return n.String()
}

func note(list *[]string, name string) {
	if !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
}
