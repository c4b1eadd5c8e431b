package kafkabroker

import (
	"encoding/json"
	"time"
)

// Record is a record of a topic. Key and Value are nil for none; Transaction is "committed", "aborted" or "open", and ""
// for a record that was written outside of one.
type Record struct {
	Topic       string
	Partition   int32
	Offset      int64
	Timestamp   time.Time
	Key, Value  []byte
	Headers     []Header
	Transaction string
}

// Header is a header of a record; a name may occur several times.
type Header struct {
	Name  string
	Value []byte
}

// NewRecord is a record to write or to expect. Key and Value are a string, []byte, Null, or anything else as JSON.
// Fields that are left out are written as none, and are not compared.
type NewRecord struct {
	Key, Value any
	Headers    []Header
	Timestamp  time.Time
	Partition  *int32
}

// Null is a key or a value that is not there, for expected records: nil is not compared.
var Null = null{}

type null struct{}

func (null) MarshalJSON() ([]byte, error) {
	return []byte("null"), nil
}

// Values returns records without keys.
func Values(values ...any) []NewRecord {
	records := make([]NewRecord, len(values))
	for index, value := range values {
		records[index].Value = value
	}
	return records
}

// To returns a pointer to a value, for fields of options.
func To[T any](value T) *T {
	return &value
}

// MarshalJSON writes the record as the control API wants it.
func (r NewRecord) MarshalJSON() ([]byte, error) {
	given := fields{}
	putContent(given, "key", r.Key)
	putContent(given, "value", r.Value)
	putPointer(given, "partition", r.Partition)
	putList(given, "headers", r.Headers)
	if !r.Timestamp.IsZero() {
		given["timestamp"] = r.Timestamp.UnixMilli()
	}
	return json.Marshal(given)
}

func putContent(to fields, name string, value any) {
	if data, ok := value.([]byte); ok && data != nil {
		to[name+"_base64"] = data
	} else if value != nil && !ok {
		to[name] = value
	}
}

// MarshalJSON writes the header as the control API wants it.
func (h Header) MarshalJSON() ([]byte, error) {
	given := fields{"name": h.Name}
	putContent(given, "value", h.Value)
	return json.Marshal(given)
}

// content is a key or a value as the control API writes it.
type content struct {
	text   *string
	binary []byte
}

func (c content) bytes() []byte {
	if c.text != nil {
		return []byte(*c.text)
	}
	return c.binary
}

// UnmarshalJSON reads a record of the control API.
func (r *Record) UnmarshalJSON(data []byte) error {
	var read struct {
		Topic       string   `json:"topic"`
		Partition   int32    `json:"partition"`
		Offset      int64    `json:"offset"`
		Timestamp   int64    `json:"timestamp"`
		Key         *string  `json:"key"`
		Value       *string  `json:"value"`
		KeyBase64   []byte   `json:"key_base64"`
		ValueBase64 []byte   `json:"value_base64"`
		Headers     []Header `json:"headers"`
		Transaction string   `json:"transaction"`
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	*r = Record{
		Topic:       read.Topic,
		Partition:   read.Partition,
		Offset:      read.Offset,
		Timestamp:   time.UnixMilli(read.Timestamp),
		Key:         content{read.Key, read.KeyBase64}.bytes(),
		Value:       content{read.Value, read.ValueBase64}.bytes(),
		Headers:     read.Headers,
		Transaction: read.Transaction,
	}
	return nil
}

// UnmarshalJSON reads a header of the control API.
func (h *Header) UnmarshalJSON(data []byte) error {
	var read struct {
		Name        string  `json:"name"`
		Value       *string `json:"value"`
		ValueBase64 []byte  `json:"value_base64"`
	}
	err := json.Unmarshal(data, &read)
	*h = Header{read.Name, content{read.Value, read.ValueBase64}.bytes()}
	return err
}
