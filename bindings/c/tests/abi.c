/*
 * Uses the library as a program in C does, including what a correct program does not do. Prints the
 * kind and the message of expected errors, which the test compares; anything else aborts.
 */
#include <diskfs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                            \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

/* Prints an error and frees it. */
static void print(diskfs_error *error) {
    CHECK(error);
    printf("%s %d: %s\n", diskfs_error_get_kind_name(error), diskfs_error_get_errno(error),
           diskfs_error_get_message(error));
    diskfs_error_free(error);
}

static diskfs_disk *open_with(const char *path, uint32_t access, const char *passphrase) {
    diskfs_options *options = diskfs_options_new();
    CHECK(diskfs_options_set_access(options, access, NULL));
    if (passphrase) {
        const uint8_t *bytes = (const uint8_t *)passphrase;
        CHECK(diskfs_options_add_passphrase(options, NULL, bytes, strlen(passphrase), NULL));
    }
    diskfs_error *error;
    diskfs_disk *disk = diskfs_open(path, options, &error);
    diskfs_options_free(options);
    if (!disk) {
        print(error);
        exit(0);
    }
    CHECK(!error);
    return disk;
}

/* Opens an image and lists its root. */
static void list(const char *path, const char *passphrase) {
    diskfs_disk *disk = open_with(path, DISKFS_ACCESS_READ_ONLY, passphrase);
    diskfs_error *error;
    diskfs_dir *dir = diskfs_read_dir(disk, NULL, "/", &error);
    if (dir) {
        diskfs_entry entry;
        while (diskfs_dir_next(dir, &entry)) {
            puts(entry.name);
        }
    } else {
        print(error);
    }
    diskfs_dir_free(dir);
    CHECK(diskfs_close(disk, NULL));
}

/* Passes NULL and invalid UTF-8 for everything. */
static void misuse(const char *path) {
    diskfs_error *error;
    CHECK(!diskfs_open(NULL, NULL, NULL));
    CHECK(!diskfs_open(NULL, NULL, &error));
    print(error);
    CHECK(!diskfs_options_set_access(NULL, 0, &error));
    print(error);
    diskfs_options *options = diskfs_options_new();
    CHECK(!diskfs_options_set_access(options, 77, &error));
    print(error);
    CHECK(!diskfs_options_set_format(options, "q\xff", &error));
    print(error);
    CHECK(!diskfs_options_set_format(options, "cloop", &error));
    print(error);
    CHECK(!diskfs_options_add_passphrase(options, NULL, NULL, 5, &error));
    print(error);
    diskfs_options_free(options);

    CHECK(!diskfs_list_volumes(NULL, NULL));
    CHECK(!diskfs_read_dir(NULL, NULL, NULL, NULL));
    CHECK(!diskfs_inspect_json(NULL, false, NULL));
    CHECK(!diskfs_info_json(NULL, NULL));
    CHECK(!diskfs_deploy(NULL, NULL, NULL, NULL, NULL));
    CHECK(!diskfs_stat(NULL, NULL, NULL, NULL, NULL));
    CHECK(!diskfs_open_file(NULL, NULL, NULL, 0, NULL));
    CHECK(!diskfs_read_at(NULL, 0, NULL, 1, NULL, NULL));
    CHECK(!diskfs_write_at(NULL, 0, NULL, 1, NULL));
    CHECK(!diskfs_dir_next(NULL, NULL));
    CHECK(!diskfs_volumes_get(NULL, 0, NULL));
    CHECK(diskfs_volumes_count(NULL) == 0);
    CHECK(diskfs_close(NULL, NULL));
    CHECK(diskfs_error_get_errno(NULL) == 0);
    diskfs_file_close(NULL);
    diskfs_dir_free(NULL);
    diskfs_volumes_free(NULL);
    diskfs_options_free(NULL);
    diskfs_error_free(NULL);
    diskfs_string_free(NULL);

    diskfs_disk *disk = diskfs_open(path, NULL, NULL);
    CHECK(disk);
    CHECK(!diskfs_read_dir(disk, "\xc0", "/", &error));
    print(error);
    CHECK(!diskfs_read_dir(disk, "p99", "/", &error));
    print(error);
    CHECK(!diskfs_stat(disk, NULL, NULL, NULL, &error));
    print(error);
    CHECK(!diskfs_open_file(disk, NULL, "/", 99, &error));
    print(error);
    CHECK(!diskfs_open_file(disk, NULL, "/", DISKFS_FILE_MODE_READ, &error));
    CHECK(diskfs_error_get_kind(error) == DISKFS_ERROR_KIND_IS_A_DIRECTORY);
    print(error);
    /* Paths of a guest are bytes. */
    CHECK(!diskfs_stat(disk, NULL, "/\xff", NULL, &error));
    CHECK(diskfs_error_get_kind(error) == DISKFS_ERROR_KIND_NOT_FOUND);
    diskfs_error_free(error);
    CHECK(!diskfs_mkdir(disk, NULL, "/new", &error));
    print(error);
    CHECK(diskfs_close(disk, &error) && !error);
}

/* Makes changes, and sees them after the disk was opened again. */
static void change(const char *path) {
    diskfs_disk *disk = open_with(path, DISKFS_ACCESS_WRITE, NULL);
    CHECK(diskfs_mkdir_all(disk, NULL, "/new/a/b", NULL));
    CHECK(diskfs_symlink(disk, NULL, "a/b", "/new/link", NULL));
    CHECK(diskfs_write_file(disk, NULL, "/new/link/one", NULL, 0, NULL));
    CHECK(diskfs_chmod(disk, NULL, "/new/a/b/one", 0600, NULL));
    CHECK(diskfs_chown(disk, NULL, "/new/a/b/one", 1000, UINT32_MAX, NULL));
    CHECK(diskfs_rename(disk, NULL, "/new/a/b/one", "/new/two", NULL));
    diskfs_error *error;
    CHECK(!diskfs_remove(disk, NULL, "/new", &error));
    print(error);
    CHECK(!diskfs_mkdir(disk, NULL, "/new", &error));
    print(error);
    CHECK(!diskfs_rename(disk, NULL, "/new/two", NULL, &error));
    print(error);
    CHECK(diskfs_remove_all(disk, NULL, "/new/a", NULL));
    CHECK(!diskfs_open_file(disk, NULL, "/new/two", DISKFS_FILE_MODE_CREATE_NEW, &error));
    print(error);
    uint32_t mode = DISKFS_FILE_MODE_WRITE_OR_CREATE;
    diskfs_file *file = diskfs_open_file(disk, NULL, "/new/two", mode, NULL);
    CHECK(file);
    CHECK(diskfs_write_at(file, 4096, (const uint8_t *)"end", 3, NULL));
    CHECK(diskfs_set_len(file, 4098, NULL));
    CHECK(diskfs_file_sync(file, NULL));
    CHECK(diskfs_sync(disk, NULL));
    CHECK(diskfs_close(disk, NULL));
    /* The disk is closed before the file. */
    CHECK(!diskfs_write_at(file, 0, (const uint8_t *)"x", 1, &error));
    print(error);

    /* The file does not keep the image open. */
    disk = open_with(path, DISKFS_ACCESS_READ_ONLY, NULL);
    diskfs_metadata metadata;
    CHECK(diskfs_stat(disk, NULL, "/new/two", &metadata, NULL));
    CHECK(metadata.size_bytes == 4098 && metadata.mode == 0100600 && metadata.uid == 1000);
    CHECK(diskfs_lstat(disk, NULL, "/new/link", &metadata, NULL));
    CHECK(metadata.file_type == DISKFS_FILE_TYPE_SYMLINK);
    char *target = diskfs_read_link(disk, NULL, "/new/link", NULL);
    CHECK(target && !strcmp(target, "a/b"));
    diskfs_string_free(target);
    diskfs_file_close(file);
    file = diskfs_open_file(disk, NULL, "/new/two", DISKFS_FILE_MODE_READ, NULL);
    CHECK(file);
    uint8_t buffer[8];
    size_t read;
    uint64_t size_bytes;
    CHECK(diskfs_file_size(file, &size_bytes, NULL) && size_bytes == 4098);
    CHECK(diskfs_read_at(file, 4094, buffer, sizeof buffer, &read, NULL));
    CHECK(read == 4 && !memcmp(buffer, "\0\0en\0\0\0\0", 8));
    CHECK(diskfs_read_at(file, UINT64_MAX, buffer, sizeof buffer, &read, NULL) && read == 0);
    CHECK(!diskfs_write_at(file, 0, buffer, 1, &error));
    print(error);
    diskfs_file_close(file);
    CHECK(diskfs_close(disk, NULL));
}

/* Writes more than the disk has room for. */
static void fill(const char *path) {
    diskfs_disk *disk = open_with(path, DISKFS_ACCESS_DRY_RUN, NULL);
    size_t len = 64 << 20;
    uint8_t *data = malloc(len);
    CHECK(data);
    memset(data, 'x', len);
    diskfs_error *error;
    CHECK(!diskfs_write_file(disk, NULL, "/large", data, len, &error));
    CHECK(diskfs_error_get_kind(error) == DISKFS_ERROR_KIND_NO_SPACE);
    print(error);
    free(data);
    diskfs_close(disk, NULL);
}

static bool cancel(uint64_t done_bytes, uint64_t total_bytes, void *data) {
    CHECK(done_bytes <= total_bytes);
    *(int *)data += 1;
    return false;
}

/* Applies a plan: in a dry run, cancelled, invalid, and to the end. */
static void deploy(const char *path, const char *plan) {
    diskfs_disk *disk = open_with(path, DISKFS_ACCESS_WRITE, NULL);
    diskfs_error *error;
    char *document = diskfs_deploy_dry_run(disk, plan, &error);
    if (!document) {
        print(error);
    }
    CHECK(document);
    CHECK(strstr(document, "\"diff\""));
    diskfs_string_free(document);
    int calls = 0;
    CHECK(!diskfs_deploy(disk, plan, cancel, &calls, &error));
    CHECK(calls == 1);
    print(error);
    CHECK(!diskfs_deploy(disk, "steps: [{nonsense: 1}]", NULL, NULL, &error));
    print(error);
    document = diskfs_deploy(disk, plan, NULL, NULL, &error);
    CHECK(document && !error);
    puts(document);
    diskfs_string_free(document);
    document = diskfs_inspect_json(disk, true, &error);
    CHECK(document && !error);
    puts(document);
    diskfs_string_free(document);
    document = diskfs_info_json(disk, &error);
    CHECK(document && !error);
    puts(document);
    diskfs_string_free(document);
    CHECK(diskfs_close(disk, NULL));
}

static void *work(void *data) {
    const diskfs_disk *disk = data;
    for (int round = 0; round < 20; round++) {
        diskfs_error *error;
        diskfs_metadata metadata;
        CHECK(!diskfs_stat(disk, NULL, "/missing", &metadata, &error));
        CHECK(diskfs_error_get_kind(error) == DISKFS_ERROR_KIND_NOT_FOUND);
        diskfs_error_free(error);
        char name[64];
        snprintf(name, sizeof name, "/%lx-%d", (unsigned long)pthread_self(), round);
        CHECK(diskfs_write_file(disk, NULL, name, (const uint8_t *)name, strlen(name), NULL));
        diskfs_file *file = diskfs_open_file(disk, NULL, name, DISKFS_FILE_MODE_READ, NULL);
        CHECK(file);
        uint8_t buffer[64];
        size_t read;
        CHECK(diskfs_read_at(file, 0, buffer, sizeof buffer, &read, NULL));
        CHECK(read == strlen(name) && !memcmp(buffer, name, read));
        diskfs_file_close(file);
    }
    return NULL;
}

/* Uses one disk from several threads. */
static void threads(const char *path) {
    diskfs_disk *disk = open_with(path, DISKFS_ACCESS_WRITE, NULL);
    pthread_t all[4];
    for (int n = 0; n < 4; n++) {
        CHECK(!pthread_create(&all[n], NULL, work, disk));
    }
    for (int n = 0; n < 4; n++) {
        CHECK(!pthread_join(all[n], NULL));
    }
    CHECK(diskfs_close(disk, NULL));
}

int main(int count, char **words) {
    CHECK(count >= 3);
    const char *third = count > 3 ? words[3] : NULL;
    if (!strcmp(words[1], "list")) {
        list(words[2], third);
    } else if (!strcmp(words[1], "misuse")) {
        misuse(words[2]);
    } else if (!strcmp(words[1], "change")) {
        change(words[2]);
    } else if (!strcmp(words[1], "fill")) {
        fill(words[2]);
    } else if (!strcmp(words[1], "deploy")) {
        deploy(words[2], third);
    } else if (!strcmp(words[1], "threads")) {
        threads(words[2]);
    } else {
        return 2;
    }
    return 0;
}
