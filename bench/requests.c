/* Load generator for one small request: every connection sends it, waits for the answer, and sends it again.
 *
 *   requests PORT CONNECTIONS WARM_MS MEASURED_MS < FRAME
 *
 * FRAME is a whole request with its length in front; only its correlation id is written anew each time. Prints a line
 * of JSON, and after it the first and the last answer of every connection as they came, for whoever can read them.
 * Rule: an answer counts if its correlation id is the request's and its length that of the connection's first answer;
 * one that differs ends the run. What is measured is between two reads of the monotonic clock, without connecting. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST = 1 << 16, CORRELATION_AT = 8, ANSWERED_AT = 4, EVENTS = 256, GIVE_UP_MS = 10000 };

typedef struct {
    int fd;
    uint32_t correlation;
    size_t got, first_size;
    unsigned char answer[LARGEST], first[LARGEST];
} connection_t;

static unsigned char frame[LARGEST];
static size_t frame_size;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static uint32_t number_at(const unsigned char *bytes) {
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return ntohl(value);
}

static void ask(connection_t *c) {
    uint32_t id = htonl(++c->correlation);
    memcpy(frame + CORRELATION_AT, &id, sizeof id);
    if (send(c->fd, frame, frame_size, MSG_NOSIGNAL) != (ssize_t)frame_size)
        fail("send");
}

/* Whether the answer is there in whole. */
static int answered(connection_t *c) {
    ssize_t n = recv(c->fd, c->answer + c->got, LARGEST - c->got, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return 0;
    errno = n ? errno : 0;
    if (n <= 0)
        fail("the broker closed a connection");
    c->got += n;
    if (c->got < 4 || c->got < number_at(c->answer) + 4)
        return 0;
    if (c->got > number_at(c->answer) + 4 || number_at(c->answer + ANSWERED_AT) != c->correlation)
        fail("an answer to another request");
    if (!c->first_size)
        memcpy(c->first, c->answer, c->first_size = c->got);
    if (c->got != c->first_size)
        fail("an answer of another length than the first");
    c->got = 0;
    return 1;
}

static connection_t *connected(int port, int epoll) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct epoll_event event = {.events = EPOLLIN};
    connection_t *c = calloc(1, sizeof *c);
    int one = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address))
        fail("connect");
    event.data.ptr = c;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event))
        fail("epoll_ctl");
    return c;
}

int main(int argc, char **argv) {
    if (argc != 5 || (frame_size = fread(frame, 1, LARGEST, stdin)) < 12) {
        fprintf(stderr, "usage: requests PORT CONNECTIONS WARM_MS MEASURED_MS < FRAME\n");
        return 2;
    }
    int count = atoi(argv[2]), in_flight = count, epoll = epoll_create1(0);
    connection_t **all = malloc(count * sizeof *all);
    for (int i = 0; i < count; i++)
        all[i] = connected(atoi(argv[1]), epoll);
    struct epoll_event events[EVENTS];
    double begin = now() + atof(argv[3]) / 1e3, end = begin + atof(argv[4]) / 1e3, began = 0, ended = 0;
    long answers = 0, before = 0, measured = 0;
    for (int i = 0; i < count; i++)
        ask(all[i]);
    while (in_flight) {
        int ready = epoll_wait(epoll, events, EVENTS, GIVE_UP_MS);
        if (ready <= 0)
            fail("no answer");
        double t = now();
        if (!began && t >= begin)
            began = t, before = answers;
        if (!ended && t >= end)
            ended = t, measured = answers - before;
        for (int i = 0; i < ready; i++) {
            connection_t *c = events[i].data.ptr;
            if (!answered(c))
                continue;
            answers++;
            if (ended)
                in_flight--;
            else
                ask(c);
        }
    }
    if (ended <= began) {
        fputs("no answer came in the time that is measured\n", stderr);
        return 1;
    }
    printf("{\"per_s\": %.2f, \"answers\": %ld}\n", measured / (ended - began), answers);
    for (int i = 0; i < count; i++) {
        fwrite(all[i]->first, 1, all[i]->first_size, stdout);
        fwrite(all[i]->answer, 1, all[i]->first_size, stdout);
    }
    return 0;
}
