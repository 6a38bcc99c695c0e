/*
 * The functions of FoundationDB's C client that its Go bindings call, declared for the test double of
 * package fdbctest. Names, arguments and layouts are those of the C API's documentation
 * (https://apple.github.io/foundationdb/api-c.html); const is left out, since Go cannot export it.
 * Builds against a real client use the header that came with it.
 */
#pragma once

#include <stdint.h>

#ifndef FDB_API_VERSION
#define FDB_API_VERSION 730
#endif

typedef int fdb_error_t;
typedef int fdb_bool_t;

typedef struct FDB_future FDBFuture;
typedef struct FDB_database FDBDatabase;
typedef struct FDB_tenant FDBTenant;
typedef struct FDB_transaction FDBTransaction;

typedef int FDBNetworkOption;
typedef int FDBDatabaseOption;
typedef int FDBTransactionOption;
typedef int FDBMutationType;
typedef int FDBStreamingMode;
typedef int FDBConflictRangeType;

/* Packed as the client packs them: the bindings count on 12 and 24 bytes. */
#pragma pack(push, 4)
typedef struct {
	uint8_t* key;
	int key_length;
} FDBKey;

typedef struct {
	uint8_t* key;
	int key_length;
	uint8_t* value;
	int value_length;
} FDBKeyValue;
#pragma pack(pop)

typedef void (*FDBCallback)(FDBFuture* future, void* parameter);

char* fdb_get_error(fdb_error_t code);
int fdb_get_max_api_version(void);
fdb_error_t fdb_select_api_version_impl(int runtime_version, int header_version);

fdb_error_t fdb_network_set_option(FDBNetworkOption option, uint8_t* value, int value_length);
fdb_error_t fdb_setup_network(void);
fdb_error_t fdb_run_network(void);
fdb_error_t fdb_stop_network(void);

void fdb_future_cancel(FDBFuture* f);
void fdb_future_destroy(FDBFuture* f);
void fdb_future_release_memory(FDBFuture* f);
fdb_bool_t fdb_future_is_ready(FDBFuture* f);
fdb_error_t fdb_future_set_callback(FDBFuture* f, FDBCallback callback, void* parameter);
fdb_error_t fdb_future_get_error(FDBFuture* f);
fdb_error_t fdb_future_get_int64(FDBFuture* f, int64_t* out);
fdb_error_t fdb_future_get_key(FDBFuture* f, uint8_t** out_key, int* out_length);
fdb_error_t fdb_future_get_value(FDBFuture* f, fdb_bool_t* out_present, uint8_t** out_value, int* out_length);
fdb_error_t fdb_future_get_keyvalue_array(FDBFuture* f, FDBKeyValue** out_kv, int* out_count, fdb_bool_t* out_more);
fdb_error_t fdb_future_get_key_array(FDBFuture* f, FDBKey** out_keys, int* out_count);
fdb_error_t fdb_future_get_string_array(FDBFuture* f, char*** out_strings, int* out_count);

fdb_error_t fdb_create_database(char* cluster_file_path, FDBDatabase** out_database);
fdb_error_t fdb_create_database_from_connection_string(char* connection_string, FDBDatabase** out_database);
void fdb_database_destroy(FDBDatabase* d);
fdb_error_t fdb_database_set_option(FDBDatabase* d, FDBDatabaseOption option, uint8_t* value, int value_length);
fdb_error_t fdb_database_create_transaction(FDBDatabase* d, FDBTransaction** out_transaction);
fdb_error_t fdb_database_open_tenant(FDBDatabase* d, uint8_t* name, int name_length, FDBTenant** out_tenant);
FDBFuture* fdb_database_reboot_worker(FDBDatabase* d, uint8_t* address, int address_length, fdb_bool_t check, int duration);
FDBFuture* fdb_database_get_client_status(FDBDatabase* d);

fdb_error_t fdb_tenant_create_transaction(FDBTenant* t, FDBTransaction** out_transaction);
void fdb_tenant_destroy(FDBTenant* t);

void fdb_transaction_destroy(FDBTransaction* t);
void fdb_transaction_cancel(FDBTransaction* t);
void fdb_transaction_reset(FDBTransaction* t);
fdb_error_t fdb_transaction_set_option(FDBTransaction* t, FDBTransactionOption option, uint8_t* value, int value_length);
void fdb_transaction_set_read_version(FDBTransaction* t, int64_t version);
FDBFuture* fdb_transaction_get_read_version(FDBTransaction* t);
FDBFuture* fdb_transaction_get(FDBTransaction* t, uint8_t* key, int key_length, fdb_bool_t snapshot);
FDBFuture* fdb_transaction_get_key(FDBTransaction* t, uint8_t* key, int key_length, fdb_bool_t or_equal, int offset,
                                   fdb_bool_t snapshot);
FDBFuture* fdb_transaction_get_range(FDBTransaction* t, uint8_t* begin_key, int begin_length, fdb_bool_t begin_or_equal,
                                     int begin_offset, uint8_t* end_key, int end_length, fdb_bool_t end_or_equal, int end_offset,
                                     int limit, int target_bytes, FDBStreamingMode mode, int iteration, fdb_bool_t snapshot,
                                     fdb_bool_t reverse);
FDBFuture* fdb_transaction_get_estimated_range_size_bytes(FDBTransaction* t, uint8_t* begin_key, int begin_length,
                                                          uint8_t* end_key, int end_length);
FDBFuture* fdb_transaction_get_range_split_points(FDBTransaction* t, uint8_t* begin_key, int begin_length, uint8_t* end_key,
                                                  int end_length, int64_t chunk_size);
FDBFuture* fdb_transaction_get_addresses_for_key(FDBTransaction* t, uint8_t* key, int key_length);
void fdb_transaction_set(FDBTransaction* t, uint8_t* key, int key_length, uint8_t* value, int value_length);
void fdb_transaction_clear(FDBTransaction* t, uint8_t* key, int key_length);
void fdb_transaction_clear_range(FDBTransaction* t, uint8_t* begin_key, int begin_length, uint8_t* end_key, int end_length);
void fdb_transaction_atomic_op(FDBTransaction* t, uint8_t* key, int key_length, uint8_t* param, int param_length,
                               FDBMutationType operation);
fdb_error_t fdb_transaction_add_conflict_range(FDBTransaction* t, uint8_t* begin_key, int begin_length, uint8_t* end_key,
                                               int end_length, FDBConflictRangeType type);
FDBFuture* fdb_transaction_watch(FDBTransaction* t, uint8_t* key, int key_length);
FDBFuture* fdb_transaction_commit(FDBTransaction* t);
fdb_error_t fdb_transaction_get_committed_version(FDBTransaction* t, int64_t* out_version);
FDBFuture* fdb_transaction_get_versionstamp(FDBTransaction* t);
FDBFuture* fdb_transaction_get_approximate_size(FDBTransaction* t);
FDBFuture* fdb_transaction_on_error(FDBTransaction* t, fdb_error_t code);
