package kafkabroker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client is a client of a broker's control API. Its methods are the API's operations; one that the broker refuses
// returns a *ControlError.
type Client struct {
	controlURL string
	token      string
}

// NewClient returns a client of the broker with this control API: http://127.0.0.1:9644. The token is "" for a broker
// that asks for none.
func NewClient(controlURL, token string) *Client {
	return &Client{strings.TrimSuffix(controlURL, "/"), token}
}

// ControlError is a refusal of the broker.
type ControlError struct {
	Status int    `json:"status"` // of HTTP
	Detail string `json:"detail"`
	Code   string `json:"code"` // the name of Kafka's error, if one is behind it
}

func (e *ControlError) Error() string {
	return e.Detail
}

// Each call has a connection of its own: an idle one may be closed by the broker when the next call begins.
var transport = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

const mostRecords = 5000 // of a page

// Records returns the records of a topic, of all pages unless there is a limit.
func (c *Client) Records(ctx context.Context, topic string, options ...RecordsPageOptions) ([]Record, error) {
	var wanted RecordsPageOptions
	for _, each := range options {
		wanted = each
	}
	if wanted.Limit != 0 {
		page, err := c.RecordsPage(ctx, topic, wanted)
		return page.Records, err
	}
	partitions, err := c.partitions(ctx, topic, wanted.Partition)
	var found []Record
	for _, partition := range partitions {
		of, more := wanted, true
		of.Partition, of.Limit = &partition, mostRecords
		for more && err == nil {
			var page Records
			page, err = c.RecordsPage(ctx, topic, of)
			found = append(found, page.Records...)
			of.FromOffset, more = page.NextOffsets[fmt.Sprint(partition)], page.More
		}
	}
	return found, err
}

func (c *Client) partitions(ctx context.Context, topic string, wanted *int32) ([]int32, error) {
	if wanted != nil {
		return []int32{*wanted}, nil
	}
	described, err := c.Topic(ctx, topic)
	all := make([]int32, described.Partitions)
	for index := range all {
		all[index] = int32(index)
	}
	return all, err
}

type (
	fields map[string]any // of a body of JSON
	query  fields
	plain  string
)

// call sends a request with a query, fields, plain text or nothing (nil), and reads the answer into a value or a *string.
func (c *Client) call(ctx context.Context, method, path string, given, answer any) error {
	target := c.controlURL + path
	var body io.Reader
	contentType := ""
	switch given := given.(type) {
	case query:
		values := url.Values{}
		for name, value := range given {
			values.Set(name, fmt.Sprint(value))
		}
		target += "?" + values.Encode()
	case fields:
		written, err := json.Marshal(given)
		if err != nil {
			return err
		}
		body, contentType = bytes.NewReader(written), "application/json"
	case plain:
		body, contentType = strings.NewReader(string(given)), "text/plain; charset=utf-8"
	}
	request, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return err
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := transport.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 400 {
		refused := ControlError{Status: response.StatusCode}
		if json.Unmarshal(read, &refused) != nil {
			refused.Detail = strings.TrimSpace(string(read))
		}
		return &refused
	}
	if text, ok := answer.(*string); ok {
		*text = string(read)
		return nil
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(read, answer)
}

func inPath(value any) string {
	return url.PathEscape(fmt.Sprint(value))
}

func putValue[T comparable](to fields, name string, value T) {
	var zero T
	if value != zero {
		to[name] = value
	}
}

func putPointer[T any](to fields, name string, value *T) {
	if value != nil {
		to[name] = *value
	}
}

func putList[T any](to fields, name string, value []T) {
	if value != nil {
		to[name] = value
	}
}

func putObject(to fields, name string, value any) {
	switch value := value.(type) {
	case nil:
	case map[string]any:
		if value != nil {
			to[name] = value
		}
	default:
		to[name] = value
	}
}

// A duration below zero is none at all: zero stands for the default.
func putDuration(to fields, name string, value time.Duration) {
	if value != 0 {
		to[name] = max(value, 0).Milliseconds()
	}
}
