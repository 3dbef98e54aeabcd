/*
 * Lists the volumes of an image, changes a file in it and reads it back: files IMAGE
 */
#include <diskfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints an error, frees it and ends the program. */
static void fail(diskfs_error *error) {
    fprintf(stderr, "files: %s (%s)\n", diskfs_error_get_message(error),
            diskfs_error_get_kind_name(error));
    diskfs_error_free(error);
    exit(1);
}

static void list_volumes(const diskfs_disk *disk) {
    diskfs_error *error;
    diskfs_volumes *volumes = diskfs_list_volumes(disk, &error);
    if (!volumes) {
        fail(error);
    }
    diskfs_volume volume;
    for (size_t index = 0; diskfs_volumes_get(volumes, index, &volume); index++) {
        printf("%s: %llu bytes, %s\n", volume.name, (unsigned long long)volume.size_bytes,
               volume.kind ? volume.kind : "unknown");
    }
    diskfs_volumes_free(volumes);
}

static void list_directory(const diskfs_disk *disk, const char *path) {
    diskfs_error *error;
    diskfs_dir *dir = diskfs_read_dir(disk, NULL, path, &error);
    if (!dir) {
        fail(error);
    }
    diskfs_entry entry;
    while (diskfs_dir_next(dir, &entry)) {
        bool is_directory = entry.file_type == DISKFS_FILE_TYPE_DIRECTORY;
        printf("%s%s%s\n", path, entry.name, is_directory ? "/" : "");
    }
    diskfs_dir_free(dir);
}

int main(int count, char **words) {
    if (count != 2) {
        fprintf(stderr, "usage: files IMAGE\n");
        return 2;
    }
    diskfs_error *error;
    diskfs_options *options = diskfs_options_new();
    if (!diskfs_options_set_access(options, DISKFS_ACCESS_WRITE, &error)) {
        fail(error);
    }
    diskfs_disk *disk = diskfs_open(words[1], options, &error);
    diskfs_options_free(options);
    if (!disk) {
        fail(error);
    }
    list_volumes(disk);
    list_directory(disk, "/");

    const char *text = "written by a program in C\n";
    const char *path = "/note";
    if (!diskfs_write_file(disk, NULL, path, (const uint8_t *)text, strlen(text), &error)) {
        fail(error);
    }
    diskfs_file *file = diskfs_open_file(disk, NULL, path, DISKFS_FILE_MODE_READ, &error);
    if (!file) {
        fail(error);
    }
    uint8_t buffer[64];
    size_t read;
    if (!diskfs_read_at(file, 8, buffer, sizeof buffer, &read, &error)) {
        fail(error);
    }
    diskfs_file_close(file);
    fwrite(buffer, 1, read, stdout);

    if (!diskfs_close(disk, &error)) {
        fail(error);
    }
    return 0;
}
