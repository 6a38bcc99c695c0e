//go:build fdb

package fdb

import (
	"slices"
	"strings"
	"testing"
)

// TestNetworkOptions compares the names with those of FoundationDB 7.3's fdb.options.
func TestNetworkOptions(t *testing.T) {
	want := strings.Fields(`BUGGIFY_DISABLE BUGGIFY_ENABLE BUGGIFY_SECTION_ACTIVATED_PROBABILITY
		BUGGIFY_SECTION_FIRED_PROBABILITY CALLBACKS_ON_EXTERNAL_THREADS CLIENT_BUGGIFY_DISABLE CLIENT_BUGGIFY_ENABLE
		CLIENT_BUGGIFY_SECTION_ACTIVATED_PROBABILITY CLIENT_BUGGIFY_SECTION_FIRED_PROBABILITY
		CLIENT_THREADS_PER_VERSION CLIENT_TMP_DIR CLUSTER_FILE DISABLE_CLIENT_BYPASS
		DISABLE_CLIENT_STATISTICS_LOGGING DISABLE_LOCAL_CLIENT DISABLE_MULTI_VERSION_CLIENT_API
		DISTRIBUTED_CLIENT_TRACER ENABLE_RUN_LOOP_PROFILING ENABLE_SLOW_TASK_PROFILING EXTERNAL_CLIENT_DIRECTORY
		EXTERNAL_CLIENT_LIBRARY FAIL_INCOMPATIBLE_CLIENT FUTURE_VERSION_CLIENT_LIBRARY
		IGNORE_EXTERNAL_CLIENT_FAILURES KNOB LOCAL_ADDRESS RETAIN_CLIENT_LIBRARY_COPIES TLS_CA_BYTES TLS_CA_PATH
		TLS_CERT_BYTES TLS_CERT_PATH TLS_KEY_BYTES TLS_KEY_PATH TLS_PASSWORD TLS_PLUGIN TLS_VERIFY_PEERS
		TRACE_CLOCK_SOURCE TRACE_ENABLE TRACE_FILE_IDENTIFIER TRACE_FORMAT TRACE_INITIALIZE_ON_SETUP TRACE_LOG_GROUP
		TRACE_MAX_LOGS_SIZE TRACE_PARTIAL_FILE_SUFFIX TRACE_ROLL_SIZE TRACE_SHARE_AMONG_CLIENT_THREADS`)
	if got := slices.Sorted(slices.Values(networkOptions())); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestUnknownNetworkOption: a variable that the client would ignore keeps the store from opening.
func TestUnknownNetworkOption(t *testing.T) {
	for variable, want := range map[string]string{
		"FDB_NETWORK_OPTION_TLS_CERT=x":        "has FDB_NETWORK_OPTION_TLS_CERT, ",
		"FDB_NETWORK_OPTION_TLS_CERTIFICATE=":  "_OPTION_TLS_CERT_BYTES, FDB_NETWORK_OPTION_TLS_CERT_PATH",
		"FDB_NETWORK_OPTION_TRACE_ENABLED=/x":  "are: FDB_NETWORK_OPTION_TRACE_ENABLE",
		"FDB_NETWORK_OPTION_knob=x":            "FDB_NETWORK_OPTION_KNOB",
		"FDB_NETWORK_OPTION_=x":                "FDB_NETWORK_OPTION_KNOB",
		"FDB_NETWORK_OPTION_CLIENT_BUGGIFY_=x": "FDB_NETWORK_OPTION_CLIENT_BUGGIFY_ENABLE",
	} {
		err := checkNetworkOptions([]string{"PATH=/bin", "FDB_NETWORK_OPTION_KNOB=a=b", variable})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", variable, err, want)
		}
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
		if _, err := Open("/no/such/file", Options{}); err == nil || !strings.Contains(err.Error(), networkOption) {
			t.Errorf("%s: Open gives %v", variable, err)
		}
	}
	if err := checkNetworkOptions([]string{"FDB_CLUSTER_FILE=x", "FDB_NETWORK_OPTION_TRACE_ENABLE="}); err != nil {
		t.Error(err)
	}
}
