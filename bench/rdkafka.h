/* The part of librdkafka's C interface that load.c uses, declared by hand: so the library inside confluent-kafka's wheel
 * is enough and no development package is needed. Names and layouts are librdkafka 2.x's. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_topic_partition_list_s rd_kafka_topic_partition_list_t;
struct rd_kafka_metadata;

typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

enum { RD_KAFKA_PRODUCER, RD_KAFKA_CONSUMER };
enum {
    RD_KAFKA_VTYPE_END = 0,
    RD_KAFKA_VTYPE_RKT = 2,
    RD_KAFKA_VTYPE_VALUE = 4,
    RD_KAFKA_VTYPE_MSGFLAGS = 7,
    RD_KAFKA_VTYPE_TIMESTAMP = 8
};
#define RD_KAFKA_PARTITION_UA ((int32_t)-1)
#define RD_KAFKA_OFFSET_BEGINNING (-2)
#define RD_KAFKA_MSG_F_COPY 0x2

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value, char *error, size_t size);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *conf, void (*cb)(rd_kafka_t *, const rd_kafka_message_t *, void *));
rd_kafka_t *rd_kafka_new(int type, rd_kafka_conf_t *conf, char *error, size_t size);
void rd_kafka_destroy(rd_kafka_t *rk);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *rk, const char *topic, rd_kafka_topic_conf_t *conf);
int rd_kafka_metadata(rd_kafka_t *rk, int all, rd_kafka_topic_t *only, const struct rd_kafka_metadata **md, int timeout_ms);
int rd_kafka_produce(rd_kafka_topic_t *rkt, int32_t partition, int flags, void *payload, size_t len, const void *key,
                     size_t key_len, void *opaque);
int rd_kafka_producev(rd_kafka_t *rk, ...);
int rd_kafka_poll(rd_kafka_t *rk, int timeout_ms);
int rd_kafka_poll_set_consumer(rd_kafka_t *rk);
rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int size);
void *rd_kafka_topic_partition_list_add(rd_kafka_topic_partition_list_t *list, const char *topic, int32_t partition);
int rd_kafka_topic_partition_list_set_offset(rd_kafka_topic_partition_list_t *list, const char *topic, int32_t partition,
                                             int64_t offset);
int rd_kafka_assign(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *list);
rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *rk);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *queue, int timeout_ms, rd_kafka_message_t **messages, size_t size);
void rd_kafka_message_destroy(rd_kafka_message_t *message);
