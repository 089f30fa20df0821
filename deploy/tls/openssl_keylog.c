/* TLS secrets of a program that uses the system's OpenSSL, for programs that write no key log.
 *
 *     cc -shared -fPIC -O2 -o openssl_keylog.so openssl_keylog.c -ldl
 *     LD_PRELOAD=$PWD/openssl_keylog.so SSLKEYLOGFILE=$PWD/keys kcat -b broker:9093 ...
 *
 * SSL_CTX_new and SSL_CTX_new_ex get OpenSSL's own callback for key logs (1.1.1 and later). The file
 * is made for its owner alone, and never replaced; without SSLKEYLOGFILE nothing is done. A program
 * that sets the callback itself keeps its own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_st SSL;
typedef void (*keylog_callback)(const SSL *, const char *);

static int file = -1;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

static void open_file(void)
{
    const char *name = secure_getenv("SSLKEYLOGFILE");
    if (name != NULL && *name != '\0')
        file = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void write_line(const SSL *session, const char *line)
{
    /* One call for a line, so that those of threads and processes do not mix. */
    struct iovec parts[2] = {{(void *)line, strlen(line)}, {"\n", 1}};
    (void)session;
    if (writev(file, parts, 2) < 0)
        return; /* a full disk must not end the program */
}

/* OpenSSL's own function; also of a library that was loaded for a module alone, as Python's. */
static void *real(const char *name)
{
    static const char *const libraries[] = {"libssl.so.3", "libssl.so.1.1"};
    void *found = dlsym(RTLD_NEXT, name);
    for (size_t at = 0; found == NULL && at < 2; at++) {
        void *library = dlopen(libraries[at], RTLD_LAZY | RTLD_NOLOAD);
        if (library != NULL)
            found = dlsym(library, name);
    }
    return found;
}

static SSL_CTX *with_log(SSL_CTX *context)
{
    void (*set)(SSL_CTX *, keylog_callback);
    pthread_once(&opened, open_file);
    if (context == NULL || file < 0)
        return context;
    *(void **)&set = real("SSL_CTX_set_keylog_callback");
    if (set != NULL)
        set(context, write_line);
    return context;
}

SSL_CTX *SSL_CTX_new(const void *method)
{
    SSL_CTX *(*next)(const void *);
    *(void **)&next = real("SSL_CTX_new");
    return next == NULL ? NULL : with_log(next(method));
}

SSL_CTX *SSL_CTX_new_ex(void *library, const char *properties, const void *method)
{
    SSL_CTX *(*next)(void *, const char *, const void *);
    *(void **)&next = real("SSL_CTX_new_ex");
    return next == NULL ? NULL : with_log(next(library, properties, method));
}
