/* The clients: one request, sent again and again over many connections, whose answers are counted and checked.
 *
 *     load PORT CONNECTIONS REQUESTS RATE FROM UNTIL WARM LIMIT DELTAS DELTA_MARK END_MARK < REQUEST
 *
 * RATE requests begin each second; 0: the next one as soon as a connection is free. DELTA_MARK occurs in each delta of an
 * answer, which has at least DELTAS of them, and END_MARK in its end.
 *
 * A line on stdout begins the measured window (FROM seconds after the start, and after WARM answers) and another one ends it
 * (after UNTIL seconds, or all answers); the caller reads the CPU time of a server at both. The last line has the latencies of
 * the requests that were sent after the first WARM answers. All must be over after LIMIT seconds. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD_ROOM 16384
#define MARK_ROOM 128

typedef enum { HEAD, SIZE, DATA, AFTER_DATA, TRAILER, COUNTED, TO_CLOSE } Part;

/* Finds a mark in pieces: the last bytes of a piece may begin one. */
typedef struct {
    char kept[MARK_ROOM];
    size_t length;
    long found;
} Search;

typedef struct {
    int fd, busy, kept_alive;
    size_t sent, head_length, left;
    char head[HEAD_ROOM];
    Part part;
    Search deltas, ends;
    double began, first_event, first_delta;
    int measured;
} Connection;

static Connection *connections;
static char *request, *delta_mark, *end_mark;
static size_t request_length;
static int port, epoll;
static long connection_count, requests, warm, wanted;
static long begun, completed, deltas, chunks, measured;
static double started, *first_events, *first_deltas, *wholes;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void fail(const char *why, Connection *connection) {
    fprintf(stderr, "%s; %ld answers of %ld are there", why, completed, requests);
    if (connection) fprintf(stderr, "; this one has %ld deltas: %.600s", connection->deltas.found, connection->head);
    fprintf(stderr, "\n");
    exit(1);
}

/* ---- an answer --------------------------------------------------------------------------------------------------- */

static void search(Search *search, const char *mark, const char *data, size_t length) {
    size_t most = strlen(mark) - 1;
    char joint[2 * MARK_ROOM];
    size_t head = length < most ? length : most;
    memcpy(joint, search->kept, search->length);
    memcpy(joint + search->length, data, head);
    for (char *at = joint; (at = memmem(at, joint + search->length + head - at, mark, most + 1)); at++) search->found++;
    for (const char *at = data; (at = memmem(at, data + length - at, mark, most + 1)); at++) search->found++;
    if (length >= most) {
        memcpy(search->kept, data + length - most, most);
        search->length = most;
    } else {
        size_t all = search->length + head, drop = all > most ? all - most : 0;
        memcpy(search->kept, joint + drop, all - drop);
        search->length = all - drop;
    }
}

static void take(Connection *connection, const char *data, size_t length) {
    long before = connection->deltas.found;
    if (!connection->first_event) connection->first_event = now();
    search(&connection->deltas, delta_mark, data, length);
    search(&connection->ends, end_mark, data, length);
    if (!before && connection->deltas.found) connection->first_delta = now();
    deltas += connection->deltas.found - before;
}

static void finish(Connection *connection) {
    double ended = now();
    if (!connection->ends.found || connection->deltas.found < wanted) fail("an answer is not whole", connection);
    if (connection->measured) {
        first_events[measured] = connection->first_event - connection->began;
        first_deltas[measured] = connection->first_delta ? connection->first_delta - connection->began : 0;
        wholes[measured++] = ended - connection->began;
    }
    completed++;
    connection->busy = 0;
    if (!connection->kept_alive) {
        close(connection->fd);
        connection->fd = -1;
    }
}

static const char *field(const char *head, const char *name) {
    const char *found = strcasestr(head, name);
    return found ? found + strlen(name) : NULL;
}

/* Reads the headers; gives the number of bytes of `data` that belong to them. */
static size_t read_head(Connection *connection, const char *data, size_t length) {
    size_t before = connection->head_length, room = HEAD_ROOM - 1 - before;
    size_t taken = length < room ? length : room;
    memcpy(connection->head + before, data, taken);
    connection->head_length += taken;
    connection->head[connection->head_length] = 0;
    char *end = strstr(connection->head, "\r\n\r\n");
    if (!end) {
        if (taken < length) fail("the headers are too long", connection);
        return taken;
    }
    if (strncmp(connection->head, "HTTP/1.1 200 ", 13)) fail("not a 200", connection);
    const char *size = NULL;
    char after = end[2];
    end[2] = 0;
    if (field(connection->head, "\ntransfer-encoding: chunked")) connection->part = SIZE;
    else if ((size = field(connection->head, "\ncontent-length:"))) connection->part = COUNTED;
    else connection->part = TO_CLOSE;
    connection->kept_alive = connection->part != TO_CLOSE && !field(connection->head, "\nconnection: close");
    connection->left = size ? strtoul(size, NULL, 10) : 0;
    end[2] = after;
    return end + 4 - connection->head - before;
}

static void read_answer(Connection *connection, const char *data, size_t length) {
    for (size_t at = 0; at < length && connection->busy;) {
        size_t rest = length - at, taken = rest < connection->left ? rest : connection->left;
        char byte = data[at];
        switch (connection->part) {
        case HEAD: at += read_head(connection, data + at, rest); break;
        case SIZE: /* hexadecimal, up to the end of the line */
            at++;
            if (byte == '\n') {
                connection->part = connection->left ? DATA : TRAILER;
                if (connection->left) chunks++;
            } else if (byte != '\r') {
                connection->left = connection->left * 16 + (byte <= '9' ? byte - '0' : (byte | 32) - 'a' + 10);
            }
            break;
        case DATA:
        case COUNTED:
            take(connection, data + at, taken);
            at += taken;
            connection->left -= taken;
            if (!connection->left && connection->part == COUNTED) finish(connection);
            else if (!connection->left) connection->part = AFTER_DATA;
            break;
        case AFTER_DATA:
        case TRAILER: /* an empty line */
            at++;
            if (byte == '\n' && connection->part == TRAILER) finish(connection);
            else if (byte == '\n') connection->part = SIZE;
            break;
        case TO_CLOSE:
            take(connection, data + at, rest);
            at = length;
            break;
        }
    }
}

/* ---- a connection ------------------------------------------------------------------------------------------------ */

static void watch(Connection *connection, int operation, unsigned events) {
    struct epoll_event event = {.events = events, .data.ptr = connection};
    epoll_ctl(epoll, operation, connection->fd, &event);
}

/* Says whether all of the request is on its way. */
static int send_rest(Connection *connection) {
    ssize_t sent = send(connection->fd, request + connection->sent, request_length - connection->sent, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) fail("a request could not be sent", NULL);
    connection->sent += sent > 0 ? sent : 0;
    return connection->sent == request_length;
}

static void connect_to_server(Connection *connection) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(connection->fd, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS) fail("no connection", NULL);
    /* It can be written to once it is there. */
    watch(connection, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
}

static void begin(Connection *connection) {
    int fd = connection->fd;
    memset(connection, 0, sizeof *connection);
    connection->fd = fd;
    connection->busy = 1;
    /* Connecting is a part of what a client waits for. */
    connection->began = now();
    connection->measured = completed >= warm;
    begun++;
    if (fd < 0) connect_to_server(connection);
    else if (!send_rest(connection)) watch(connection, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
}

static void serve(Connection *connection, unsigned events) {
    static char data[1 << 18];
    if (events & EPOLLOUT && send_rest(connection)) watch(connection, EPOLL_CTL_MOD, EPOLLIN);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
    ssize_t length = recv(connection->fd, data, sizeof data, MSG_DONTWAIT);
    if (length > 0) {
        read_answer(connection, data, length);
        return;
    }
    if (length < 0 && errno == EAGAIN) return;
    if (connection->busy && connection->part == TO_CLOSE) {
        finish(connection);
        return;
    }
    if (connection->busy) fail(length ? strerror(errno) : "a connection was closed before its answer was whole", connection);
    close(connection->fd);
    connection->fd = -1;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static void report(const char *at) {
    printf("{\"at\":\"%s\",\"seconds\":%.6f,\"deltas\":%ld,\"chunks\":%ld,\"completed\":%ld}\n", at, now() - started, deltas, chunks,
           completed);
    fflush(stdout);
}

static int compare(const void *one, const void *other) {
    double difference = *(double *)one - *(double *)other;
    return difference < 0 ? -1 : difference > 0;
}

static void report_latency(const char *name, double *times, const char *after) {
    qsort(times, measured, sizeof *times, compare);
    printf("\"%s\":{\"p50\":%.6f,\"p99\":%.6f}%s", name, measured ? times[measured / 2] : 0.0,
           measured ? times[measured * 99 / 100] : 0.0, after);
}

static void begin_due(double rate) {
    static long at; /* the connection that is looked at first */
    long due = rate > 0 ? (long)((now() - started) * rate) + 1 : requests;
    if (due > requests) due = requests;
    for (long looked = 0; begun < due && looked < connection_count; looked++) {
        at = (at + 1) % connection_count;
        if (!connections[at].busy) begin(&connections[at]);
    }
}

int main(int count, char **arguments) {
    if (count != 12) return fprintf(stderr, "load: 11 arguments, please\n"), 2;
    port = atoi(arguments[1]);
    connection_count = atol(arguments[2]);
    requests = atol(arguments[3]);
    double rate = atof(arguments[4]), from = atof(arguments[5]), until = atof(arguments[6]), limit = atof(arguments[8]);
    warm = atol(arguments[7]);
    wanted = atol(arguments[9]);
    delta_mark = arguments[10];
    end_mark = arguments[11];
    if (strlen(delta_mark) > MARK_ROOM || strlen(end_mark) > MARK_ROOM) return 2;
    request = malloc(1 << 24);
    request_length = fread(request, 1, 1 << 24, stdin);
    connections = calloc(connection_count, sizeof *connections);
    for (long at = 0; at < connection_count; at++) connections[at].fd = -1;
    first_events = malloc(requests * sizeof(double));
    first_deltas = malloc(requests * sizeof(double));
    wholes = malloc(requests * sizeof(double));
    epoll = epoll_create1(0);
    struct epoll_event events[256];
    int begun_window = 0, ended_window = 0;
    started = now();
    while (completed < requests) {
        begin_due(rate);
        int pausing = begun < requests || !begun_window || !ended_window;
        int ready = epoll_wait(epoll, events, 256, pausing ? 1 : 100);
        for (int at = 0; at < ready; at++) serve(events[at].data.ptr, events[at].events);
        double passed = now() - started;
        if (!begun_window && passed >= from && completed >= warm) begun_window = 1, report("begin");
        if (begun_window && !ended_window && passed >= until) ended_window = 1, report("end");
        if (passed > limit) fail("the time is up", NULL);
    }
    if (!begun_window) fail("all was over before the window began", NULL);
    if (!ended_window) report("end");
    printf("{\"at\":\"over\",");
    report_latency("first_event", first_events, ",");
    report_latency("first_delta", first_deltas, ",");
    report_latency("whole", wholes, "}\n");
    return 0;
}
