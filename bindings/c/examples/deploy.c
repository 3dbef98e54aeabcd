/*
 * Applies a plan to the guest of an image and prints the result, then the facts about the guest, as
 * JSON: deploy IMAGE PLAN
 */
#include <diskfs.h>
#include <stdio.h>
#include <stdlib.h>

static void fail(diskfs_error *error) {
    fprintf(stderr, "deploy: %s (%s)\n", diskfs_error_get_message(error),
            diskfs_error_get_kind_name(error));
    diskfs_error_free(error);
    exit(1);
}

/* Prints the progress, and never cancels. */
static bool progress(uint64_t done_bytes, uint64_t total_bytes, void *data) {
    fprintf(data, "%llu of %llu bytes\n", (unsigned long long)done_bytes,
            (unsigned long long)total_bytes);
    return true;
}

/* Prints a document and frees it. */
static void print(char *document, diskfs_error *error) {
    if (!document) {
        fail(error);
    }
    puts(document);
    diskfs_string_free(document);
}

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: deploy IMAGE PLAN\n");
        return 2;
    }
    diskfs_error *error = NULL;
    diskfs_options *options = diskfs_options_new();
    if (!diskfs_options_set_access(options, DISKFS_ACCESS_WRITE, &error)) {
        fail(error);
    }
    diskfs_disk *disk = diskfs_open(words[1], options, &error);
    diskfs_options_free(options);
    if (!disk) {
        fail(error);
    }
    char *document = diskfs_deploy(disk, words[2], progress, stderr, &error);
    print(document, error);
    document = diskfs_inspect_json(disk, false, &error);
    print(document, error);
    if (!diskfs_close(disk, &error)) {
        fail(error);
    }
    return 0;
}
