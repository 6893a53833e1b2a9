/* Preloaded into a member: lets writes and syncs of files below FAULT_ROOT fail with EIO while the
 * file FAULT_SWITCH exists. Its letters choose: w writes, s syncs, r synchronous writes (of LMDB's
 * root page, of the tail), R the same but only after all was written, so that the writer cannot know;
 * to s and h they are syncs, too. With h a sync does not come back as long as the file says so, with u a look at the size of the disk;
 * FAULT_SWITCH.hanging appears before one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define ROOT_PAGES_END 8192

static const char *root, *switch_file;

__attribute__((constructor)) static void begin(void) {
    root = getenv("FAULT_ROOT");
    switch_file = getenv("FAULT_SWITCH");
    unsetenv("LD_PRELOAD");
}

static int chosen_path(const char *path, char letter) {
    char letters[16] = "";
    if (!root || !switch_file || strncmp(path, root, strlen(root))) return 0;
    int file = syscall(SYS_openat, AT_FDCWD, switch_file, O_RDONLY | O_CLOEXEC, 0);
    if (file < 0) return 0;
    ssize_t n = syscall(SYS_read, file, letters, sizeof letters - 1);
    syscall(SYS_close, file);
    return n > 0 && strchr(letters, letter) != NULL;
}

static int chosen(int fd, char letter) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    return chosen_path(path, letter);
}

static int synchronous(int fd) { return (fcntl(fd, F_GETFL) & O_DSYNC) != 0; }

static void hang(void);

static int failed(void) {
    errno = EIO;
    return -1;
}

/* LMDB takes a root page whose write failed back through another descriptor. */
static int taken_back(int fd, off_t at) { return !synchronous(fd) && at < ROOT_PAGES_END; }

ssize_t pwrite64(int fd, const void *data, size_t len, off_t at) {
    if (chosen(fd, 'w') || (synchronous(fd) && chosen(fd, 'r'))) return failed();
    if (taken_back(fd, at) && chosen(fd, 'R')) return failed();
    while (synchronous(fd) && chosen(fd, 'h')) hang();
    ssize_t done = syscall(SYS_pwrite64, fd, data, len, at);
    return synchronous(fd) && (chosen(fd, 'R') || chosen(fd, 's')) ? failed() : done;
}
ssize_t pwrite(int fd, const void *data, size_t len, off_t at) {
    return pwrite64(fd, data, len, at);
}

ssize_t pwritev64(int fd, const struct iovec *v, int n, off_t at) {
    ssize_t total = 0;
    for (int i = 0; i < n; i++) {
        ssize_t done = pwrite64(fd, v[i].iov_base, v[i].iov_len, at + total);
        if (done < 0) return total ? total : done;
        total += done;
        if ((size_t)done < v[i].iov_len) break;
    }
    return total;
}
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at) { return pwritev64(fd, v, n, at); }

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void hang(void) {
    const struct timespec pause = {.tv_nsec = 5000000};
    char told[4096];
    snprintf(told, sizeof told, "%s.hanging", switch_file);
    syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, told, O_CREAT | O_CLOEXEC, 0600));
    nanosleep(&pause, NULL);
}

static int synced(int fd, int (*sync)(int)) {
    while (chosen(fd, 'h')) hang();
    return chosen(fd, 's') ? failed() : sync(fd);
}
int fsync(int fd) { return synced(fd, NEXT(fsync)); }
int fdatasync(int fd) { return synced(fd, NEXT(fdatasync)); }

int statvfs(const char *path, struct statvfs *found) {
    while (chosen_path(path, 'u')) hang();
    return NEXT(statvfs)(path, found);
}
int statvfs64(const char *path, struct statvfs64 *found) {
    while (chosen_path(path, 'u')) hang();
    return NEXT(statvfs64)(path, found);
}
