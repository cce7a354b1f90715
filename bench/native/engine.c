/* A mock engine that costs next to nothing: PORT.
 *
 * It answers Chat Completions. The user's text says how, because every gateway passes that on:
 *
 *     bench/KIND/INTERVAL/DELTAS
 *
 * KIND is text, reasoning, think or calls; INTERVAL is in milliseconds, and 0 means as fast as the reader reads. With an
 * interval each delta is a write of its own, as engines do it. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WORDS 14
#define SLOTS 4096        /* of one millisecond each: the longest interval */
#define BATCH 65536       /* bytes that are written at once without an interval */
#define MOST_DESCRIPTORS 65536

static const char *words[WORDS] = {" the", " answer", " to", " that", " is", " a", " matter",
                                   " of",  " how",    " one", " looks", " at", " it", ","};

typedef struct {
    char *data;
    size_t length, room;
} Buffer;

/* What an answer of a kind consists of: bytes before the deltas, the deltas, and bytes after them. */
typedef struct {
    const char *name, *open, *close, *finish;
    Buffer before, deltas[WORDS], after;
} Kind;

typedef struct Connection {
    int fd, interval, at, writing;
    long left;
    const Kind *kind;
    Buffer in, out;
    size_t sent;
    Buffer ending;
    struct Connection **previous, *next; /* in its slot; previous is NULL outside of any slot */
} Connection;

static Connection *connections[MOST_DESCRIPTORS], *slots[SLOTS];
static int epoll;

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static void add(Buffer *buffer, const char *data, size_t length) {
    if (buffer->length + length > buffer->room) {
        buffer->room = 2 * (buffer->length + length) + 256;
        buffer->data = realloc(buffer->data, buffer->room);
    }
    memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
}

static void addf(Buffer *buffer, const char *format, ...) {
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    add(buffer, text, length);
}

/* One event as one HTTP chunk. */
static void add_frame(Buffer *buffer, const char *data) {
    addf(buffer, "%zx\r\ndata: %s\n\n\r\n", strlen(data) + 8, data);
}

#define CHUNK_HEAD                                                                                                              \
    "{\"id\":\"chatcmpl-8c2f1e0b7a6d4c59b1f0e3d2a4c5b697\",\"object\":\"chat.completion.chunk\",\"created\":1763170000,"        \
    "\"model\":\"bench\",\"system_fingerprint\":\"b6710-d1e355648\",\"choices\":"

static void add_delta(Buffer *buffer, const char *delta, const char *finish) {
    char text[2048];
    snprintf(text, sizeof text,
             CHUNK_HEAD "[{\"index\":0,\"delta\":%s,\"logprobs\":null,\"finish_reason\":%s,\"token_ids\":null}]}", delta, finish);
    add_frame(buffer, text);
}

/* ---- the kinds --------------------------------------------------------------------------------------------------- */

#define CALL(arguments) "{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"" arguments "\"}}]}"
static Kind kinds[] = {
    {.name = "text", .open = "{\"content\":\"", .close = "\"}", .finish = "\"stop\""},
    {.name = "reasoning", .open = "{\"reasoning_content\":\"", .close = "\"}", .finish = "\"stop\""},
    {.name = "think", .open = "{\"content\":\"", .close = "\"}", .finish = "\"stop\""},
    {.name = "calls", .open = "{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"", .close = "\"}}]}",
     .finish = "\"tool_calls\""},
};
#define KINDS (int)(sizeof kinds / sizeof kinds[0])

static void make_kinds(void) {
    for (Kind *kind = kinds; kind < kinds + KINDS; kind++) {
        add_delta(&kind->before, "{\"role\":\"assistant\",\"content\":\"\"}", "null");
        for (int at = 0; at < WORDS; at++) {
            char delta[256];
            snprintf(delta, sizeof delta, "%s%s%s", kind->open, words[at], kind->close);
            add_delta(&kind->deltas[at], delta, "null");
        }
    }
    /* A thought is followed by an answer. */
    add_delta(&kinds[1].after, "{\"content\":\"So.\"}", "null");
    add_delta(&kinds[2].before, "{\"content\":\"<think>\"}", "null");
    add_delta(&kinds[2].after, "{\"content\":\"</think>\"}", "null");
    add_delta(&kinds[2].after, "{\"content\":\"So.\"}", "null");
    add_delta(&kinds[3].before,
              "{\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"note\","
              "\"arguments\":\"\"}}]}", "null");
    add_delta(&kinds[3].before, CALL("{\\\"text\\\":\\\""), "null");
    add_delta(&kinds[3].after, CALL("\\\"}"), "null");
}

static void make_ending(Connection *connection, long deltas) {
    char usage[512];
    Buffer *ending = &connection->ending;
    ending->length = 0;
    add(ending, connection->kind->after.data, connection->kind->after.length);
    add_delta(ending, "{}", connection->kind->finish);
    snprintf(usage, sizeof usage, CHUNK_HEAD "[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":%ld,\"total_tokens\":%ld}}",
             deltas, deltas + 12);
    add_frame(ending, usage);
    add_frame(ending, "[DONE]");
    addf(ending, "0\r\n\r\n");
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void watch(Connection *connection, int writing) {
    if (connection->writing != writing) {
        struct epoll_event event = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.ptr = connection};
        connection->writing = writing;
        epoll_ctl(epoll, EPOLL_CTL_MOD, connection->fd, &event);
    }
}

static void flush_out(Connection *connection) {
    Buffer *out = &connection->out;
    while (connection->sent < out->length) {
        ssize_t written = send(connection->fd, out->data + connection->sent, out->length - connection->sent, MSG_NOSIGNAL);
        if (written < 0) {
            /* A connection that broke is found out by its next read. */
            watch(connection, errno == EAGAIN);
            return;
        }
        connection->sent += written;
    }
    out->length = connection->sent = 0;
    watch(connection, 0);
}

static void enter_slot(Connection *connection, long slot) {
    Connection **first = &slots[slot % SLOTS];
    connection->next = *first;
    connection->previous = first;
    if (*first) (*first)->previous = &connection->next;
    *first = connection;
}

static void leave_slot(Connection *connection) {
    if (!connection->previous) return;
    *connection->previous = connection->next;
    if (connection->next) connection->next->previous = connection->previous;
    connection->previous = NULL;
}

/* The next delta, or the end. Says whether more follows. */
static int add_next(Connection *connection) {
    if (connection->left > 0) {
        const Buffer *delta = &connection->kind->deltas[connection->at];
        connection->at = (connection->at + 1) % WORDS;
        connection->left--;
        add(&connection->out, delta->data, delta->length);
        return 1;
    }
    add(&connection->out, connection->ending.data, connection->ending.length);
    connection->kind = NULL;
    return 0;
}

/* Without an interval: as much as the reader takes. */
static void pour(Connection *connection) {
    while (connection->kind && !connection->interval && !connection->writing) {
        while (connection->out.length < BATCH && add_next(connection)) {}
        flush_out(connection);
    }
}

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void tick(long slot) {
    Connection *connection = slots[slot % SLOTS];
    slots[slot % SLOTS] = NULL;
    while (connection) {
        Connection *next = connection->next;
        connection->previous = NULL;
        if (add_next(connection)) enter_slot(connection, slot + connection->interval);
        flush_out(connection);
        connection = next;
    }
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void answer_json(Connection *connection, const char *status, const char *body) {
    addf(&connection->out, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", status, strlen(body));
    add(&connection->out, body, strlen(body));
    flush_out(connection);
}

static void answer_whole(Connection *connection, long deltas) {
    Buffer body = {0};
    addf(&body, "{\"id\":\"chatcmpl-8c2f1e0b7a6d4c59b1f0e3d2a4c5b697\",\"object\":\"chat.completion\",\"created\":1763170000,"
                "\"model\":\"bench\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"");
    for (long at = 0; at < deltas; at++) add(&body, words[at % WORDS], strlen(words[at % WORDS]));
    addf(&body, "\"},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":%ld,"
                "\"total_tokens\":%ld}}%c", deltas, deltas + 12, 0);
    answer_json(connection, "200 OK", body.data);
    free(body.data);
}

static void answer_chat(Connection *connection, const char *body, size_t length, long now) {
    char name[16] = "text";
    int interval = 0;
    long deltas = 1;
    const char *asked = memmem(body, length, "bench/", 6);
    if (asked) sscanf(asked, "bench/%15[a-z]/%d/%ld", name, &interval, &deltas);
    if (!memmem(body, length, "\"stream\":true", 13) && !memmem(body, length, "\"stream\": true", 14)) {
        answer_whole(connection, deltas);
        return;
    }
    connection->kind = &kinds[0];
    for (Kind *kind = kinds; kind < kinds + KINDS; kind++)
        if (!strcmp(kind->name, name)) connection->kind = kind;
    connection->left = deltas;
    connection->at = 0;
    connection->interval = interval < SLOTS ? interval : SLOTS - 1;
    make_ending(connection, deltas);
    addf(&connection->out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n");
    add(&connection->out, connection->kind->before.data, connection->kind->before.length);
    if (connection->interval) {
        enter_slot(connection, now + connection->interval);
        flush_out(connection);
    } else {
        pour(connection);
    }
}

static void answer(Connection *connection, long now) {
    Buffer *in = &connection->in;
    char *end = memmem(in->data, in->length, "\r\n\r\n", 4);
    if (!end) return;
    size_t length = 0, head = end + 4 - in->data;
    *end = 0;
    char *field = strcasestr(in->data, "\ncontent-length:");
    if (field) length = strtoul(field + 16, NULL, 10);
    *end = '\r';
    if (in->length < head + length) return;
    in->length = 0; /* nobody sends a request before the answer to the one before */
    if (!strncmp(in->data, "POST /v1/chat/completions", 25)) answer_chat(connection, in->data + head, length, now);
    else if (!strncmp(in->data, "GET /v1/models", 14))
        answer_json(connection, "200 OK", "{\"object\":\"list\",\"data\":[{\"id\":\"bench\",\"object\":\"model\",\"owned_by\":\"bench\"}]}");
    else answer_json(connection, "404 Not Found", "{\"error\":{\"message\":\"Not found\"}}");
}

static void drop(Connection *connection) {
    leave_slot(connection);
    connections[connection->fd] = NULL;
    close(connection->fd);
    free(connection->in.data);
    free(connection->out.data);
    free(connection->ending.data);
    free(connection);
}

static void serve(Connection *connection, unsigned events, long now) {
    if (events & EPOLLOUT) {
        flush_out(connection);
        pour(connection);
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
    char data[65536];
    ssize_t length = recv(connection->fd, data, sizeof data, 0);
    if (length <= 0) {
        if (length == 0 || errno != EAGAIN) drop(connection);
        return;
    }
    add(&connection->in, data, length);
    answer(connection, now);
}

static void welcome(int listener) {
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        int on = 1;
        if (fd >= MOST_DESCRIPTORS) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        Connection *connection = connections[fd] = calloc(1, sizeof *connection);
        connection->fd = fd;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    }
}

int main(int count, char **arguments) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(count > 1 ? atoi(arguments[1]) : 0)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) return perror("engine"), 1;
    make_kinds();
    epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[256];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (long done = now_ms();;) {
        int ready = epoll_wait(epoll, events, 256, 1);
        long now = now_ms();
        /* Late by more than a slot's round, time is lost: two deltas of one stream at once would be one read. */
        if (now - done >= SLOTS) done = now - 1;
        while (done < now) tick(++done);
        for (int at = 0; at < ready; at++)
            if (events[at].data.ptr) serve(events[at].data.ptr, events[at].events, now);
            else welcome(listener);
    }
}
