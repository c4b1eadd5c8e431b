// franz-go's client of schema registries; the first argument is the registry's URL.
package main

import (
	"context"
	"fmt"

	. "languages/check"

	"github.com/twmb/franz-go/pkg/sr"
)

const (
	user  = `{"type":"record","name":"User","fields":[{"name":"name","type":"string"}]}`
	aged  = `{"type":"record","name":"User","fields":[{"name":"name","type":"string"},{"name":"age","type":"int","default":0}]}`
	order = `{"type":"record","name":"Order","fields":[{"name":"by","type":"User"}]}`
	wrong = `{"type":"record","name":"User","fields":[{"name":"name","type":"int"}]}`
)

var ctx = context.Background()

func avro(text string, references ...sr.SchemaReference) sr.Schema {
	return sr.Schema{Schema: text, Type: sr.TypeAvro, References: references}
}

func main() {
	client := Must(sr.NewClient(sr.URLs(Bootstrap)))
	users, orders := Topic("users"), Topic("orders")
	Do("types", func() (string, error) {
		types, err := client.SupportedTypes(ctx)
		return fmt.Sprint(types), err
	})
	Do("versions", func() (string, error) {
		first := Must(client.CreateSchema(ctx, users, avro(user)))
		second := Must(client.CreateSchema(ctx, users, avro(aged)))
		versions, err := client.SubjectVersions(ctx, users)
		return fmt.Sprint(first.Version, second.Version, first.ID != second.ID, versions), err
	})
	Do("lookup", func() (string, error) {
		found, err := client.LookupSchema(ctx, users, avro(user))
		return fmt.Sprint(found.Version, found.Schema.Schema == user), err
	})
	Do("refused", func() (string, error) {
		_, err := client.CreateSchema(ctx, users, avro(wrong))
		checked := Must(client.CheckCompatibility(ctx, users, -1, avro(wrong)))
		return fmt.Sprint(err.(*sr.ResponseError).ErrorCode, checked.Is), nil
	})
	Do("references", func() (string, error) {
		reference := sr.SchemaReference{Name: "User", Subject: users, Version: 1}
		made := Must(client.CreateSchema(ctx, orders, avro(order, reference)))
		_, err := client.DeleteSubject(ctx, users, sr.SoftDelete)
		referring := Must(client.SchemaReferences(ctx, users, 1))
		return fmt.Sprint(err.(*sr.ResponseError).ErrorCode, len(referring), referring[0].ID == made.ID), nil
	})
	Do("settings", func() (string, error) {
		set := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatNone}, users)
		read := client.Compatibility(ctx, users)
		mode := client.SetMode(ctx, sr.ModeReadOnly, users)
		_, err := client.CreateSchema(ctx, users, avro(wrong))
		client.ResetMode(ctx, users)
		return fmt.Sprint(set[0].Level, read[0].Level, mode[0].Mode, err.(*sr.ResponseError).ErrorCode), nil
	})
	Do("deletion", func() (string, error) {
		soft := Must(client.DeleteSubject(ctx, orders, sr.SoftDelete))
		gone := Must(client.DeleteSubject(ctx, orders, sr.HardDelete))
		_, err := client.SubjectVersions(ctx, orders)
		return fmt.Sprint(soft, gone, err.(*sr.ResponseError).ErrorCode), nil
	})
	Do("data", func() (string, error) {
		var serde sr.Serde
		made := Must(client.LookupSchema(ctx, users, avro(user)))
		serde.Register(made.ID, "", sr.EncodeFn(func(any) ([]byte, error) { return []byte("Ada"), nil }))
		id, rest, err := new(sr.ConfluentHeader).DecodeID(Must(serde.Encode("")))
		text := Must(client.SchemaTextByID(ctx, id))
		return fmt.Sprintf("%s %t", rest, text == user), err
	})
}
