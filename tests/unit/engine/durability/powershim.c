/* Preloaded into a member: writes down every change to files below TRACE_ROOT, in one total order,
 * so that a test can work out what a power loss at any point would leave.
 *
 * Event: kind, sync flag, inode, offset, path length, second path length, data length, then these.
 * Kinds: W write, S sync of a file or directory, T truncate, O create, R rename, M mkdir, U unlink.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct __attribute__((packed)) event {
    uint8_t kind, sync;
    uint64_t inode, offset;
    uint32_t path_len, path2_len;
    uint64_t data_len;
};

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static int trace_fd = -1;
static const char *root;
static size_t root_len;

__attribute__((constructor)) static void begin(void) {
    root = getenv("TRACE_ROOT");
    if (!root) return;
    root_len = strlen(root);
    trace_fd = syscall(SYS_openat, AT_FDCWD, getenv("TRACE_FILE"),
                       O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    unsetenv("LD_PRELOAD");
}

static void put(const void *data, size_t len) {
    const char *at = data;
    while (len) {
        ssize_t n = syscall(SYS_write, trace_fd, at, len);
        if (n <= 0) abort();
        at += n;
        len -= n;
    }
}

static int below(const char *path) {
    return trace_fd >= 0 && strncmp(path, root, root_len) == 0;
}

static void absolute(const char *path, char *out) {
    if (path[0] == '/') snprintf(out, 4096, "%s", path);
    else {
        char here[2048] = "";
        if (!getcwd(here, sizeof here)) abort();
        snprintf(out, 4096, "%s/%s", here, path);
    }
}

static int fd_path(int fd, char *out) {
    char link[64];
    if (trace_fd < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, 4095);
    if (n <= 0) return 0;
    out[n] = 0;
    return below(out);
}

static void note(char kind, int sync, uint64_t inode, uint64_t offset, const char *path,
                 const char *path2, const void *data, size_t len) {
    struct event e = {kind, sync, inode, offset, strlen(path), path2 ? strlen(path2) : 0, len};
    put(&e, sizeof e);
    put(path, e.path_len);
    if (path2) put(path2, e.path2_len);
    if (len) put(data, len);
}

static uint64_t inode_of(int fd) {
    struct stat s;
    return fstat(fd, &s) ? 0 : s.st_ino;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void note_write(int fd, off_t offset, const char *path, const void *data, ssize_t done) {
    int flags = fcntl(fd, F_GETFL);
    if (flags & O_APPEND) offset = lseek(fd, 0, SEEK_END) - done;
    if (done > 0) note('W', (flags & O_DSYNC) != 0, inode_of(fd), offset, path, NULL, data, done);
}

static ssize_t written(int fd, const void *data, size_t len, off_t offset, int positioned) {
    char path[4096];
    int traced = fd_path(fd, path);
    if (traced) pthread_mutex_lock(&order);
    off_t at = positioned ? offset : (traced ? lseek(fd, 0, SEEK_CUR) : 0);
    ssize_t done = positioned ? syscall(SYS_pwrite64, fd, data, len, offset)
                              : syscall(SYS_write, fd, data, len);
    if (traced) {
        note_write(fd, at, path, data, done);
        pthread_mutex_unlock(&order);
    }
    return done;
}

ssize_t write(int fd, const void *data, size_t len) { return written(fd, data, len, 0, 0); }
ssize_t pwrite(int fd, const void *data, size_t len, off_t at) {
    return written(fd, data, len, at, 1);
}
ssize_t pwrite64(int fd, const void *data, size_t len, off_t at) {
    return written(fd, data, len, at, 1);
}

/* A short vector write is allowed; one piece at a time keeps the trace simple. */
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at) {
    ssize_t total = 0;
    for (int i = 0; i < n; i++) {
        ssize_t done = written(fd, v[i].iov_base, v[i].iov_len, at + total, 1);
        if (done < 0) return total ? total : done;
        total += done;
        if ((size_t)done < v[i].iov_len) break;
    }
    return total;
}
ssize_t pwritev64(int fd, const struct iovec *v, int n, off_t at) { return pwritev(fd, v, n, at); }
ssize_t writev(int fd, const struct iovec *v, int n) {
    ssize_t total = 0;
    for (int i = 0; i < n; i++) {
        ssize_t done = written(fd, v[i].iov_base, v[i].iov_len, 0, 0);
        if (done < 0) return total ? total : done;
        total += done;
        if ((size_t)done < v[i].iov_len) break;
    }
    return total;
}

static int synced(int fd, int (*next)(int)) {
    char path[4096];
    if (!fd_path(fd, path)) return next(fd);
    pthread_mutex_lock(&order);
    int result = next(fd);
    if (!result) note('S', 0, inode_of(fd), 0, path, NULL, NULL, 0);
    pthread_mutex_unlock(&order);
    return result;
}
int fsync(int fd) { return synced(fd, NEXT(fsync)); }
int fdatasync(int fd) { return synced(fd, NEXT(fdatasync)); }

static int truncated(int fd, off_t len) {
    char path[4096];
    int traced = fd_path(fd, path);
    if (traced) pthread_mutex_lock(&order);
    int result = syscall(SYS_ftruncate, fd, len);
    if (traced) {
        if (!result) note('T', 0, inode_of(fd), len, path, NULL, NULL, 0);
        pthread_mutex_unlock(&order);
    }
    return result;
}
int ftruncate(int fd, off_t len) { return truncated(fd, len); }
int ftruncate64(int fd, off_t len) { return truncated(fd, len); }

static int allocated(int fd, off_t start, off_t len) {
    char path[4096];
    struct stat s;
    int traced = fd_path(fd, path);
    if (traced) pthread_mutex_lock(&order);
    int grows = traced && !fstat(fd, &s) && s.st_size < start + len;
    int result = NEXT(posix_fallocate)(fd, start, len);
    if (traced) {
        if (!result && grows) note('T', 0, inode_of(fd), start + len, path, NULL, NULL, 0);
        pthread_mutex_unlock(&order);
    }
    return result;
}
int posix_fallocate(int fd, off_t start, off_t len) { return allocated(fd, start, len); }
int posix_fallocate64(int fd, off_t start, off_t len) { return allocated(fd, start, len); }

static int opened(int dir, const char *path, int flags, mode_t mode) {
    char full[4096];
    absolute(path, full);
    int traced = dir == AT_FDCWD && below(full) && (flags & (O_CREAT | O_TRUNC));
    if (traced) pthread_mutex_lock(&order);
    int existed = traced && access(full, F_OK) == 0;
    int fd = syscall(SYS_openat, dir, path, flags, mode);
    if (traced) {
        if (fd >= 0 && !existed) note('O', 0, inode_of(fd), 0, full, NULL, NULL, 0);
        else if (fd >= 0 && (flags & O_TRUNC)) note('T', 0, inode_of(fd), 0, full, NULL, NULL, 0);
        pthread_mutex_unlock(&order);
    }
    return fd;
}

static mode_t mode_from(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}
#define OPEN(name, params, dir)                      \
    int name params {                                \
        va_list rest;                                \
        va_start(rest, flags);                       \
        mode_t mode = mode_from(flags, rest);        \
        va_end(rest);                                \
        return opened(dir, path, flags, mode);       \
    }
OPEN(open, (const char *path, int flags, ...), AT_FDCWD)
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD)
OPEN(openat, (int at, const char *path, int flags, ...), at)
OPEN(openat64, (int at, const char *path, int flags, ...), at)

static int named(char kind, const char *path, const char *path2, int result) {
    if (!result) note(kind, 0, 0, 0, path, path2, NULL, 0);
    pthread_mutex_unlock(&order);
    return result;
}
int mkdir(const char *path, mode_t mode) {
    char full[4096];
    absolute(path, full);
    if (!below(full)) return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    pthread_mutex_lock(&order);
    return named('M', full, NULL, syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int rename(const char *from, const char *to) {
    char full[4096], full2[4096];
    absolute(from, full);
    absolute(to, full2);
    if (!below(full)) return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    pthread_mutex_lock(&order);
    return named('R', full, full2, syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int unlink(const char *path) {
    char full[4096];
    absolute(path, full);
    if (!below(full)) return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    pthread_mutex_lock(&order);
    return named('U', full, NULL, syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
