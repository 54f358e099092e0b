package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const kgoTopic = "kadm-data"

func (o kadmOperations) client(options ...kgo.Opt) *kgo.Client {
	all := append([]kgo.Opt{
		kgo.SeedBrokers(o.brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(15 * time.Second),
		kgo.ProducerBatchMaxBytes(6_000_000),
	}, options...)
	return must(kgo.NewClient(all...))
}

func (o kadmOperations) sent(ctx context.Context, record *kgo.Record, options ...kgo.Opt) (int64, error) {
	client := o.client(options...)
	defer client.Close()
	record.Topic = kgoTopic
	found, err := client.ProduceSync(ctx, record).First()
	return found.Offset, err
}

func (o kadmOperations) read(ctx context.Context, partition int32, at kgo.Offset, options ...kgo.Opt) (*kgo.Record, error) {
	client := o.client(append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		kgoTopic: {partition: at},
	}))...)
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			return nil, errs[0].Err
		}
		if found := fetches.Records(); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
}

func (o kadmOperations) roundTrip(ctx context.Context, record *kgo.Record, options ...kgo.Opt) (*kgo.Record, error) {
	offset, err := o.sent(ctx, record, options...)
	if err != nil {
		return nil, err
	}
	return o.read(ctx, record.Partition, kgo.NewOffset().At(offset))
}

func (o kadmOperations) records() {
	must(o.admin.CreateTopic(context.Background(), 9, 3, nil, kgoTopic))
	settle()
	value := []byte(strings.Repeat("v", 1000))
	unordered := kgo.DisableIdempotentWrite()
	for partition, each := range []struct {
		name string
		acks kgo.Acks
	}{{"0", kgo.NoAck()}, {"1", kgo.LeaderAck()}, {"all", kgo.AllISRAcks()}} {
		o.operation("produce with acks="+each.name, func(ctx context.Context) (any, error) {
			record := kgo.Record{Partition: int32(partition), Value: value}
			return o.sent(ctx, &record, kgo.RequiredAcks(each.acks), unordered)
		})
	}
	o.operation("produce idempotently", func(ctx context.Context) (any, error) {
		return o.sent(ctx, &kgo.Record{Partition: 3, Value: value})
	})
	codecs := map[string]kgo.CompressionCodec{
		"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for _, name := range []string{"gzip", "snappy", "lz4", "zstd"} {
		o.operation("produce and consume, "+name, func(ctx context.Context) (any, error) {
			record := kgo.Record{Partition: 4, Value: value}
			found, err := o.roundTrip(ctx, &record, kgo.ProducerBatchCompression(codecs[name]))
			if err != nil {
				return nil, err
			}
			return fmt.Sprint(len(found.Value), " bytes at ", found.Offset), nil
		})
	}
	o.operation("headers", func(ctx context.Context) (any, error) {
		headers := []kgo.RecordHeader{{Key: "name", Value: []byte("value")}, {Key: "empty"}}
		found, err := o.roundTrip(ctx, &kgo.Record{Partition: 5, Value: value, Headers: headers})
		if err != nil {
			return nil, err
		}
		return fmt.Sprintf("%s", found.Headers), nil
	})
	o.operation("null key and value", func(ctx context.Context) (any, error) {
		found, err := o.roundTrip(ctx, &kgo.Record{Partition: 6})
		if err != nil {
			return nil, err
		}
		return fmt.Sprint(found.Key == nil, found.Value == nil), nil
	})
	o.operation("a large record", func(ctx context.Context) (any, error) {
		found, err := o.roundTrip(ctx, &kgo.Record{Partition: 7, Value: make([]byte, 900_000)},
			kgo.ProducerBatchCompression(kgo.NoCompression()))
		if err != nil {
			return nil, err
		}
		return fmt.Sprint(len(found.Value), " bytes"), nil
	})
	o.refused("a record that is too large", "MESSAGE_TOO_LARGE", func(ctx context.Context) (any, error) {
		return o.sent(ctx, &kgo.Record{Partition: 7, Value: make([]byte, 5_000_000)},
			kgo.ProducerBatchCompression(kgo.NoCompression()))
	})
	o.operation("consume from the beginning", func(ctx context.Context) (any, error) {
		found, err := o.read(ctx, 2, kgo.NewOffset().AtStart())
		if err != nil {
			return nil, err
		}
		return fmt.Sprint(found.Offset, " epoch ", found.LeaderEpoch), nil
	})
	o.operation("consume from a time", func(ctx context.Context) (any, error) {
		found, err := o.read(ctx, 2, kgo.NewOffset().AfterMilli(1))
		if err != nil {
			return nil, err
		}
		return found.Offset, nil
	})
	o.operation("consume committed records only", func(ctx context.Context) (any, error) {
		found, err := o.read(ctx, 2, kgo.NewOffset().AtStart(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		if err != nil {
			return nil, err
		}
		return found.Offset, nil
	})
	o.operation("consume from where there is nothing", func(ctx context.Context) (any, error) {
		found, err := o.read(ctx, 2, kgo.NewOffset().At(1_000_000),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			return nil, err
		}
		return found.Offset, nil
	})
}

func (o kadmOperations) offsets() {
	offset := func(found kadm.ListedOffsets, err error) (any, error) {
		if err := errors.Join(err, found.Error()); err != nil {
			return nil, err
		}
		listed, _ := found.Lookup(kgoTopic, 2)
		return fmt.Sprint(listed.Offset, " epoch ", listed.LeaderEpoch), nil
	}
	o.operation("earliest offset", func(ctx context.Context) (any, error) {
		return offset(o.admin.ListStartOffsets(ctx, kgoTopic))
	})
	o.operation("latest offset", func(ctx context.Context) (any, error) {
		return offset(o.admin.ListEndOffsets(ctx, kgoTopic))
	})
	o.operation("latest committed offset", func(ctx context.Context) (any, error) {
		return offset(o.admin.ListCommittedOffsets(ctx, kgoTopic))
	})
	o.operation("offset of a time", func(ctx context.Context) (any, error) {
		return offset(o.admin.ListOffsetsAfterMilli(ctx, 1, kgoTopic))
	})
	o.operation("offset of the highest time", func(ctx context.Context) (any, error) {
		return offset(o.admin.ListMaxTimestampOffsets(ctx, kgoTopic))
	})
	o.operation("earliest local offset", func(ctx context.Context) (any, error) {
		return offset(o.admin.ListLocalLogStartOffsets(ctx, kgoTopic))
	})
	o.operation("latest tiered offset", func(ctx context.Context) (any, error) {
		return offset(o.admin.ListLatestRemoteOffsets(ctx, kgoTopic))
	})
	o.operation("end offset of a leader epoch", func(ctx context.Context) (any, error) {
		request := kadm.OffsetForLeaderEpochRequest{}
		request.Add(kgoTopic, 2, 0)
		found, err := o.admin.OffsetForLeaderEpoch(ctx, request)
		if err != nil {
			return nil, err
		}
		answer := found[kgoTopic][2]
		return fmt.Sprint(answer.EndOffset, " of ", answer.LeaderEpoch), answer.Err
	})
	o.operation("describe producers", func(ctx context.Context) (any, error) {
		partition := kadm.TopicsSet{}
		partition.Add(kgoTopic, 3)
		found, err := o.admin.DescribeProducers(ctx, partition)
		if err != nil {
			return nil, err
		}
		answer := found[kgoTopic].Partitions[3]
		return fmt.Sprint(len(answer.ActiveProducers), " producer"), answer.Err
	})
	o.operation("delete records", func(ctx context.Context) (any, error) {
		request := kadm.Offsets{}
		request.AddOffset(kgoTopic, 4, 2, -1)
		found, err := o.admin.DeleteRecords(ctx, request)
		if err := errors.Join(err, found.Error()); err != nil {
			return nil, err
		}
		answer, _ := found.Lookup(kgoTopic, 4)
		return answer.LowWatermark, nil
	})
}

func (o kadmOperations) groups() {
	o.operation("list groups", func(ctx context.Context) (any, error) {
		_, err := o.admin.ListGroups(ctx)
		return nil, err
	})
	o.operation("list transactions", func(ctx context.Context) (any, error) {
		_, err := o.admin.ListTransactions(ctx, nil, nil)
		return nil, err
	})
	o.operation("consume in a group", func(ctx context.Context) (any, error) {
		client := must(kgo.NewClient(kgo.SeedBrokers(o.brokers...), kgo.ConsumerGroup("kadm"),
			kgo.ConsumeTopics(kgoTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())))
		defer client.Close()
		fetches := client.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			return nil, errs[0].Err
		}
		return nil, nil
	})
	o.operation("produce in a transaction", func(ctx context.Context) (any, error) {
		client := o.client(kgo.TransactionalID("kadm"))
		defer client.Close()
		if err := client.BeginTransaction(); err != nil {
			return nil, err
		}
		err := client.ProduceSync(ctx, &kgo.Record{Topic: kgoTopic, Partition: 8}).FirstErr()
		return nil, errors.Join(err, client.EndTransaction(ctx, kgo.TryCommit))
	})
}
