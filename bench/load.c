/* Load generator on librdkafka.
 *
 *   load produce BOOTSTRAP TOPIC PARTITIONS COUNT SIZE [key=value ...]   first produce to last acknowledgement
 *   load keyed   BOOTSTRAP TOPIC PARTITIONS COUNT SIZE [key=value ...]   the same with keys, each twice, in mixed order
 *   load dated   BOOTSTRAP TOPIC PARTITIONS COUNT SIZE [key=value ...]   the same with times of its own, 16 to a millisecond
 *   load consume BOOTSTRAP TOPIC PARTITIONS COUNT SIZE [key=value ...]   first record to last record
 *   load latency BOOTSTRAP TOPIC PARTITIONS COUNT SIZE [key=value ...]   one record in flight, linger 0; SIGTERM ends it
 *
 * Prints one line of JSON. Rule: what is measured is between two reads of the monotonic clock, without connecting. */
#include "rdkafka.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GIVE_UP_S = 300, SLICE = 10000, WARM = 300 };

static long acked, failed;
static volatile sig_atomic_t told_to_stop;
static char error[512];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk;
    (void)opaque;
    if (message->err)
        failed++;
    else
        acked++;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        exit(2);
    }
}

static rd_kafka_t *client(int type, rd_kafka_conf_t *conf) {
    rd_kafka_t *rk = rd_kafka_new(type, conf, error, sizeof error);
    if (!rk) {
        fprintf(stderr, "%s\n", error);
        exit(2);
    }
    return rk;
}

/* Waits until the client knows the topic, so that connecting is not measured. */
static rd_kafka_topic_t *ready(rd_kafka_t *rk, const char *name) {
    const struct rd_kafka_metadata *md;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, name, NULL);
    rd_kafka_metadata(rk, 0, topic, &md, 10000);
    return topic;
}

/* Text that compresses about as letters do. */
static char *payload(size_t size) {
    char *text = malloc(size);
    unsigned state = 1;
    for (size_t i = 0; i < size; i++) {
        state = state * 1103515245 + 12345;
        text[i] = 'a' + (state >> 16) % 26;
    }
    return text;
}

static int result(double seconds, long count, size_t size) {
    printf("{\"seconds\": %.4f, \"mb_per_s\": %.2f, \"records\": %ld, \"failed\": %ld}\n", seconds,
           count * size / seconds / 1e6, count, failed);
    return failed != 0;
}

static int delivered(rd_kafka_t *rk, double start, long count, size_t size) {
    while (acked + failed < count && now() - start < GIVE_UP_S)
        rd_kafka_poll(rk, 10);
    return result(now() - start, acked, size) || acked < count;
}

/* Every number below count / 2 twice, mixed; every run mixes them alike. */
static long *shuffled(long count) {
    long *keys = malloc(count * sizeof *keys);
    unsigned long long state = 1;
    for (long i = 0; i < count; i++)
        keys[i] = i / 2;
    for (long i = count - 1; i > 0; i--) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        long j = (state >> 33) % (i + 1), other = keys[j];
        keys[j] = keys[i];
        keys[i] = other;
    }
    return keys;
}

static int produce(rd_kafka_t *rk, const char *name, long count, size_t size, const long *keys) {
    rd_kafka_topic_t *topic = ready(rk, name);
    char *text = payload(size), key[32];
    double start = now();
    for (long i = 0; i < count; i++) {
        int length = keys ? snprintf(key, sizeof key, "customer-%012ld", keys[i]) : 0;
        while (rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, text, size, keys ? key : NULL, length,
                                NULL))
            rd_kafka_poll(rk, 10);
        if (!(i & 1023))
            rd_kafka_poll(rk, 0);
    }
    return delivered(rk, start, count, size);
}

/* From an hour ago on, so that no broker finds them too new. */
static int dated(rd_kafka_t *rk, const char *name, long count, size_t size) {
    rd_kafka_topic_t *topic = ready(rk, name);
    char *text = payload(size);
    double start = now();
    int64_t first = (int64_t)(time(NULL) - 3600) * 1000;
    for (long i = 0; i < count; i++) {
        while (rd_kafka_producev(rk, RD_KAFKA_VTYPE_RKT, topic, RD_KAFKA_VTYPE_MSGFLAGS, RD_KAFKA_MSG_F_COPY,
                                 RD_KAFKA_VTYPE_VALUE, text, size, RD_KAFKA_VTYPE_TIMESTAMP, first + i / 16,
                                 RD_KAFKA_VTYPE_END))
            rd_kafka_poll(rk, 10);
        if (!(i & 1023))
            rd_kafka_poll(rk, 0);
    }
    return delivered(rk, start, count, size);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void stop(int number) {
    (void)number;
    told_to_stop = 1;
}

static int latency(rd_kafka_t *rk, const char *name, long count, size_t size) {
    rd_kafka_topic_t *topic = ready(rk, name);
    char *text = payload(size);
    long warm = count / 10 < WARM ? count / 10 : WARM, i;
    double *times = malloc(count * sizeof *times);
    signal(SIGTERM, stop);
    for (i = -warm; i < count && !told_to_stop; i++) {
        long before = acked;
        double start = now();
        rd_kafka_produce(topic, 0, RD_KAFKA_MSG_F_COPY, text, size, NULL, 0, NULL);
        while (acked == before && !failed && now() - start < 10)
            rd_kafka_poll(rk, 10);
        if (i >= 0)
            times[i] = now() - start;
    }
    count = i;
    if (count <= 0)
        return 1;
    qsort(times, count, sizeof *times, compare);
    printf("{\"p50_ms\": %.4f, \"p99_ms\": %.4f, \"records\": %ld, \"failed\": %ld}\n", times[count / 2] * 1e3,
           times[count * 99 / 100] * 1e3, count, failed);
    return failed != 0;
}

static int consume(rd_kafka_t *rk, const char *name, int partitions, long count, size_t size) {
    static rd_kafka_message_t *messages[SLICE];
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    rd_kafka_poll_set_consumer(rk);
    ready(rk, name);
    for (int i = 0; i < partitions; i++) {
        rd_kafka_topic_partition_list_add(list, name, i);
        rd_kafka_topic_partition_list_set_offset(list, name, i, RD_KAFKA_OFFSET_BEGINNING);
    }
    rd_kafka_assign(rk, list);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(rk);
    long got = 0;
    double first = 0, begun = now();
    while (got < count && now() - begun < GIVE_UP_S) {
        ssize_t n = rd_kafka_consume_batch_queue(queue, 1000, messages, SLICE);
        for (ssize_t i = 0; i < n; i++) {
            if (!messages[i]->err) {
                if (!first)
                    first = now();
                got++;
            }
            rd_kafka_message_destroy(messages[i]);
        }
    }
    return result(now() - first, got, size) || got < count;
}

int main(int argc, char **argv) {
    if (argc < 7) {
        fprintf(stderr, "usage: load produce|keyed|dated|consume|latency BOOTSTRAP TOPIC PARTITIONS COUNT SIZE [key=value ...]\n");
        return 2;
    }
    const char *mode = argv[1], *topic = argv[3];
    int partitions = atoi(argv[4]);
    long count = atol(argv[5]);
    size_t size = atol(argv[6]);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", argv[2]);
    if (strcmp(mode, "consume")) {
        set(conf, "queue.buffering.max.messages", "1000000");
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    } else {
        set(conf, "group.id", "load");
        set(conf, "enable.auto.commit", "false");
    }
    for (int i = 7; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (!equals)
            return 2;
        *equals = 0;
        set(conf, argv[i], equals + 1);
    }
    if (!strcmp(mode, "produce"))
        return produce(client(RD_KAFKA_PRODUCER, conf), topic, count, size, NULL);
    if (!strcmp(mode, "dated"))
        return dated(client(RD_KAFKA_PRODUCER, conf), topic, count, size);
    if (!strcmp(mode, "keyed"))
        return produce(client(RD_KAFKA_PRODUCER, conf), topic, count, size, shuffled(count));
    if (!strcmp(mode, "latency"))
        return latency(client(RD_KAFKA_PRODUCER, conf), topic, count, size);
    return consume(client(RD_KAFKA_CONSUMER, conf), topic, partitions, count, size);
}
