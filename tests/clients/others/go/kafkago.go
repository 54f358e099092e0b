package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

const kafkaGoTopic = "kafka-go-data"

type kafkaGoOperations struct {
	*Program
	brokers []string
	client  *kafka.Client
}

// runKafkaGo runs what the Client of segmentio's kafka-go offers, its Writer and its Reader.
func runKafkaGo(brokers []string) {
	program := newProgram("kafka-go", "github.com/segmentio/kafka-go")
	client := &kafka.Client{
		Addr: kafka.TCP(brokers...), Timeout: 15 * time.Second,
		Transport: &kafka.Transport{MetadataTTL: 100 * time.Millisecond},
	}
	all := kafkaGoOperations{program, brokers, client}
	all.topics()
	all.configs()
	all.replicas()
	all.cluster()
	all.users()
	all.records()
	all.offsets()
	all.groups()
	all.createWhileControllersRestart(func(ctx context.Context, name string) error {
		return all.created(ctx, kafka.TopicConfig{Topic: name, NumPartitions: 1, ReplicationFactor: 1}, false)
	})
	all.operation("delete topics", func(ctx context.Context) (any, error) {
		found, err := client.Metadata(ctx, &kafka.MetadataRequest{})
		if err != nil {
			return nil, err
		}
		own := []string{}
		for _, each := range found.Topics {
			if strings.HasPrefix(each.Name, "kafka-go") {
				own = append(own, each.Name)
			}
		}
		return nil, all.deleted(ctx, own...)
	})
	all.refuses("delete an unknown topic", kafka.UnknownTopicOrPartition, func(ctx context.Context) (any, error) {
		return nil, all.deleted(ctx, "kafka-go-unknown")
	})
}

func joined(errs map[string]error) error {
	var err error
	for _, each := range errs {
		err = errors.Join(err, each)
	}
	return err
}

func (o kafkaGoOperations) refuses(name string, expected error, run operation) {
	o.operation(name, func(ctx context.Context) (any, error) {
		seen, err := run(ctx)
		if errors.Is(err, expected) {
			return expected, nil
		}
		if err == nil {
			err = fmt.Errorf("not refused: %v", seen)
		}
		return nil, err
	})
}

func (o kafkaGoOperations) created(ctx context.Context, topic kafka.TopicConfig, validateOnly bool) error {
	found, err := o.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{topic}, ValidateOnly: validateOnly,
	})
	if err != nil {
		return err
	}
	return joined(found.Errors)
}

func (o kafkaGoOperations) deleted(ctx context.Context, topics ...string) error {
	found, err := o.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: topics})
	if err != nil {
		return err
	}
	return joined(found.Errors)
}

func (o kafkaGoOperations) topics() {
	create := func(topic kafka.TopicConfig, validateOnly bool) operation {
		return func(ctx context.Context) (any, error) { return nil, o.created(ctx, topic, validateOnly) }
	}
	three := kafka.TopicConfig{Topic: "kafka-go", NumPartitions: 3, ReplicationFactor: 3}
	o.operation("create a topic, validate only", create(three, true))
	o.operation("create a topic", create(three, false))
	o.refuses("create a topic that exists", kafka.TopicAlreadyExists, create(three, false))
	o.operation("create a topic with configurations", create(kafka.TopicConfig{
		Topic: "kafka-go-configured", NumPartitions: 1, ReplicationFactor: 1,
		ConfigEntries: []kafka.ConfigEntry{
			{ConfigName: "retention.ms", ConfigValue: "1000"},
			{ConfigName: "cleanup.policy", ConfigValue: "compact"},
		},
	}, false))
	o.refuses("create a topic with an invalid value", kafka.InvalidConfiguration, create(kafka.TopicConfig{
		Topic: "kafka-go-invalid", NumPartitions: 1, ReplicationFactor: 1,
		ConfigEntries: []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "abc"}},
	}, false))
	o.operation("create a topic with an assignment", create(kafka.TopicConfig{
		Topic: "kafka-go-placed", NumPartitions: -1, ReplicationFactor: -1,
		ReplicaAssignments: []kafka.ReplicaAssignment{
			{Partition: 0, Replicas: []int{2, 1}}, {Partition: 1, Replicas: []int{3, 2}},
		},
	}, false))
	o.operation("create a topic with the brokers' defaults", create(kafka.TopicConfig{
		Topic: "kafka-go-defaults", NumPartitions: -1, ReplicationFactor: -1,
	}, false))
	o.operation("list topics", func(ctx context.Context) (any, error) {
		settle()
		found, err := o.client.Metadata(ctx, &kafka.MetadataRequest{})
		if err != nil {
			return nil, err
		}
		own := []string{}
		for _, each := range found.Topics {
			if strings.HasPrefix(each.Name, "kafka-go") {
				own = append(own, fmt.Sprint(each.Name, " ", len(each.Partitions)))
			}
		}
		sort.Strings(own)
		return own, nil
	})
	o.operation("describe a topic", o.described)
	o.refuses("describe an unknown topic", kafka.UnknownTopicOrPartition, func(ctx context.Context) (any, error) {
		found, err := o.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{"kafka-go-unknown"}})
		if err != nil {
			return nil, err
		}
		return nil, found.Topics[0].Error
	})
	grow := func(ctx context.Context, count int32, validateOnly bool) error {
		found, err := o.client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
			Topics:       []kafka.TopicPartitionsConfig{{Name: "kafka-go", Count: count}},
			ValidateOnly: validateOnly,
		})
		if err != nil {
			return err
		}
		return joined(found.Errors)
	}
	o.operation("create partitions, validate only", func(ctx context.Context) (any, error) {
		return nil, grow(ctx, 5, true)
	})
	o.operation("create partitions", func(ctx context.Context) (any, error) {
		if err := grow(ctx, 4, false); err != nil {
			return nil, err
		}
		settle()
		return o.described(ctx)
	})
	o.refuses("create fewer partitions", kafka.InvalidPartitionNumber, func(ctx context.Context) (any, error) {
		return nil, grow(ctx, 2, false)
	})
}

func (o kafkaGoOperations) partitions(ctx context.Context, topic string) ([]kafka.Partition, error) {
	found, err := o.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return nil, err
	}
	return found.Topics[0].Partitions, found.Topics[0].Error
}

func (o kafkaGoOperations) described(ctx context.Context) (any, error) {
	found, err := o.partitions(ctx, "kafka-go")
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return fmt.Sprintf("%d partitions, %d replicas", len(found), len(found[0].Replicas)), nil
}

func (o kafkaGoOperations) configs() {
	entries := func(ctx context.Context, kind kafka.ResourceType, name string) ([]kafka.DescribeConfigResponseConfigEntry, error) {
		found, err := o.client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
			Resources:       []kafka.DescribeConfigRequestResource{{ResourceType: kind, ResourceName: name}},
			IncludeSynonyms: true, IncludeDocumentation: true,
		})
		if err != nil {
			return nil, err
		}
		return found.Resources[0].ConfigEntries, found.Resources[0].Error
	}
	count := func(kind kafka.ResourceType, name string) operation {
		return func(ctx context.Context) (any, error) {
			found, err := entries(ctx, kind, name)
			return fmt.Sprint(len(found), " entries"), err
		}
	}
	value := func(ctx context.Context, key string) string {
		settle()
		found, err := entries(ctx, kafka.ResourceTypeTopic, "kafka-go")
		for _, each := range found {
			if each.ConfigName == key {
				return fmt.Sprint(each.ConfigValue, " ", each.ConfigSource, " ", len(each.ConfigSynonyms))
			}
		}
		return fmt.Sprint("no ", key, ": ", err)
	}
	o.operation("describe a topic's configuration", count(kafka.ResourceTypeTopic, "kafka-go"))
	o.operation("describe a broker's configuration", count(kafka.ResourceTypeBroker, "1"))
	alter := func(ctx context.Context, operation kafka.ConfigOperation, key, to string, validateOnly bool) error {
		found, err := o.client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
			Resources: []kafka.IncrementalAlterConfigsRequestResource{{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: "kafka-go",
				Configs: []kafka.IncrementalAlterConfigsRequestConfig{
					{Name: key, Value: to, ConfigOperation: operation},
				},
			}},
			ValidateOnly: validateOnly,
		})
		if err != nil {
			return err
		}
		return found.Resources[0].Error
	}
	o.operation("alter configurations incrementally", func(ctx context.Context) (any, error) {
		err := errors.Join(
			alter(ctx, kafka.ConfigOperationSet, "retention.ms", "60000", false),
			alter(ctx, kafka.ConfigOperationAppend, "cleanup.policy", "compact", false))
		both := value(ctx, "cleanup.policy")
		err = errors.Join(err, alter(ctx, kafka.ConfigOperationSubtract, "cleanup.policy", "delete", false))
		left := value(ctx, "cleanup.policy")
		err = errors.Join(err, alter(ctx, kafka.ConfigOperationDelete, "cleanup.policy", "", false))
		return []string{value(ctx, "retention.ms"), both, left}, err
	})
	o.operation("alter configurations incrementally, validate only", func(ctx context.Context) (any, error) {
		err := alter(ctx, kafka.ConfigOperationSet, "retention.ms", "5", true)
		return value(ctx, "retention.ms"), err
	})
	o.refuses("set an invalid value", kafka.InvalidConfiguration, func(ctx context.Context) (any, error) {
		return nil, alter(ctx, kafka.ConfigOperationSet, "cleanup.policy", "foo", false)
	})
	o.refuses("set an unknown name", kafka.InvalidConfiguration, func(ctx context.Context) (any, error) {
		return nil, alter(ctx, kafka.ConfigOperationSet, "nonsense", "1", false)
	})
	o.operation("alter configurations", func(ctx context.Context) (any, error) {
		found, err := o.client.AlterConfigs(ctx, &kafka.AlterConfigsRequest{
			Resources: []kafka.AlterConfigRequestResource{{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: "kafka-go",
				Configs: []kafka.AlterConfigRequestConfig{{Name: "max.message.bytes", Value: "2000000"}},
			}},
		})
		if err != nil {
			return nil, err
		}
		for _, each := range found.Errors {
			err = errors.Join(err, each)
		}
		return []string{value(ctx, "max.message.bytes"), value(ctx, "retention.ms")}, err
	})
}

func (o kafkaGoOperations) replicas() {
	const topic = "kafka-go-placed"
	reassign := func(ctx context.Context, to ...int) error {
		found, err := o.client.AlterPartitionReassignments(ctx, &kafka.AlterPartitionReassignmentsRequest{
			Topic:       topic,
			Assignments: []kafka.AlterPartitionReassignmentsRequestAssignment{{PartitionID: 0, BrokerIDs: to}},
			Timeout:     10 * time.Second,
		})
		if err != nil {
			return err
		}
		return errors.Join(found.Error, found.PartitionResults[0].Error)
	}
	o.operation("reassign a partition", func(ctx context.Context) (any, error) {
		if err := reassign(ctx, 3, 1); err != nil {
			return nil, err
		}
		for ctx.Err() == nil {
			settle()
			found, err := o.partitions(ctx, topic)
			if err != nil {
				return nil, err
			}
			for _, each := range found {
				replicas := []int{}
				for _, replica := range each.Replicas {
					replicas = append(replicas, replica.ID)
				}
				if each.ID == 0 && fmt.Sprint(replicas) == "[3 1]" && len(each.Isr) == 2 {
					return replicas, nil
				}
			}
		}
		return nil, errors.New("the reassignment does not end")
	})
	o.operation("list reassignments", func(ctx context.Context) (any, error) {
		found, err := o.client.ListPartitionReassignments(ctx, &kafka.ListPartitionReassignmentsRequest{
			Topics:  map[string]kafka.ListPartitionReassignmentsRequestTopic{topic: {PartitionIndexes: []int{0}}},
			Timeout: 10 * time.Second,
		})
		if err != nil {
			return nil, err
		}
		return len(found.Topics), found.Error
	})
	o.refuses("reassign to an unknown broker", kafka.InvalidReplicaAssignment, func(ctx context.Context) (any, error) {
		return nil, reassign(ctx, 1, 99)
	})
	o.operation("elect a leader, preferred, where none is needed", func(ctx context.Context) (any, error) {
		found, err := o.client.ElectLeaders(ctx, &kafka.ElectLeadersRequest{
			Topic: topic, Partitions: []int{1}, Timeout: 10 * time.Second,
		})
		if err != nil {
			return nil, err
		}
		return found.PartitionResults[0].Error, found.Error
	})
}

func (o kafkaGoOperations) cluster() {
	o.operation("describe the cluster", func(ctx context.Context) (any, error) {
		found, err := o.client.Metadata(ctx, &kafka.MetadataRequest{})
		if err != nil {
			return nil, err
		}
		ids := []int{}
		for _, each := range found.Brokers {
			ids = append(ids, each.ID)
		}
		sort.Ints(ids)
		return fmt.Sprint(found.ClusterID, " ", ids), nil
	})
	o.operation("versions of APIs", func(ctx context.Context) (any, error) {
		found, err := o.client.ApiVersions(ctx, &kafka.ApiVersionsRequest{})
		if err != nil {
			return nil, err
		}
		return nil, found.Error
	})
}

func (o kafkaGoOperations) users() {
	quota := func(op kafka.AlterClientQuotaOps, validateOnly bool) operation {
		return func(ctx context.Context) (any, error) {
			found, err := o.client.AlterClientQuotas(ctx, &kafka.AlterClientQuotasRequest{
				Entries: []kafka.AlterClientQuotaEntry{{
					Entities: []kafka.AlterClientQuotaEntity{{EntityType: "user", EntityName: "kafka-go"}},
					Ops:      []kafka.AlterClientQuotaOps{op},
				}},
				ValidateOnly: validateOnly,
			})
			if err != nil {
				return nil, err
			}
			return nil, found.Entries[0].Error
		}
	}
	rate := kafka.AlterClientQuotaOps{Key: "producer_byte_rate", Value: 1e6}
	o.operation("alter client quotas, validate only", quota(rate, true))
	o.operation("alter client quotas", quota(rate, false))
	o.operation("describe client quotas", func(ctx context.Context) (any, error) {
		settle()
		found, err := o.client.DescribeClientQuotas(ctx, &kafka.DescribeClientQuotasRequest{
			Components: []kafka.DescribeClientQuotasRequestComponent{
				{EntityType: "user", MatchType: 0, Match: "kafka-go"},
			},
		})
		if err != nil {
			return nil, err
		}
		return fmt.Sprintf("%+v", found.Entries), found.Error
	})
	o.operation("delete client quotas", quota(
		kafka.AlterClientQuotaOps{Key: "producer_byte_rate", Remove: true}, false))
	scram := func(request *kafka.AlterUserScramCredentialsRequest) operation {
		return func(ctx context.Context) (any, error) {
			found, err := o.client.AlterUserScramCredentials(ctx, request)
			if err != nil {
				return nil, err
			}
			return nil, found.Results[0].Error
		}
	}
	o.operation("create SCRAM credentials", scram(&kafka.AlterUserScramCredentialsRequest{
		Upsertions: []kafka.UserScramCredentialsUpsertion{{
			Name: "kafka-go", Mechanism: kafka.ScramMechanismSha512, Iterations: 4096,
			Salt: []byte("salt"), SaltedPassword: bytes.Repeat([]byte{1}, 64),
		}},
	}))
	o.operation("describe SCRAM credentials", func(ctx context.Context) (any, error) {
		settle()
		found, err := o.client.DescribeUserScramCredentials(ctx, &kafka.DescribeUserScramCredentialsRequest{
			Users: []kafka.UserScramCredentialsUser{{Name: "kafka-go"}},
		})
		if err != nil {
			return nil, err
		}
		return fmt.Sprintf("%+v", found.Results[0].CredentialInfos), found.Error
	})
	o.operation("delete SCRAM credentials", scram(&kafka.AlterUserScramCredentialsRequest{
		Deletions: []kafka.UserScramCredentialsDeletion{{Name: "kafka-go", Mechanism: kafka.ScramMechanismSha512}},
	}))
	o.operation("list ACLs", func(ctx context.Context) (any, error) {
		found, err := o.client.DescribeACLs(ctx, &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
			ResourceTypeFilter: kafka.ResourceTypeAny, ResourcePatternTypeFilter: kafka.PatternTypeAny,
			Operation: kafka.ACLOperationTypeAny, PermissionType: kafka.ACLPermissionTypeAny,
		}})
		if err != nil {
			return nil, err
		}
		return nil, found.Error
	})
	o.operation("create an ACL", func(ctx context.Context) (any, error) {
		found, err := o.client.CreateACLs(ctx, &kafka.CreateACLsRequest{ACLs: []kafka.ACLEntry{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: "kafka-go",
			ResourcePatternType: kafka.PatternTypeLiteral, Principal: "User:a", Host: "*",
			Operation: kafka.ACLOperationTypeRead, PermissionType: kafka.ACLPermissionTypeAllow,
		}}})
		if err != nil {
			return nil, err
		}
		return nil, errors.Join(found.Errors...)
	})
}

func (o kafkaGoOperations) sent(ctx context.Context, partition int, acks kafka.RequiredAcks, codec kafka.Compression, record kafka.Record) (int64, error) {
	found, err := o.client.Produce(ctx, &kafka.ProduceRequest{
		Topic: kafkaGoTopic, Partition: partition, RequiredAcks: acks, Compression: codec,
		Records: kafka.NewRecordReader(record),
	})
	if err != nil || acks == kafka.RequireNone {
		return 0, err
	}
	return found.BaseOffset, found.Error
}

func (o kafkaGoOperations) read(ctx context.Context, partition int, offset int64) (kafka.Message, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: o.brokers, Topic: kafkaGoTopic, Partition: partition, MaxBytes: 2_000_000,
		MaxAttempts: 2,
	})
	defer reader.Close()
	if err := reader.SetOffset(offset); err != nil {
		return kafka.Message{}, err
	}
	return reader.ReadMessage(ctx)
}

func (o kafkaGoOperations) records() {
	topic := kafka.TopicConfig{Topic: kafkaGoTopic, NumPartitions: 8, ReplicationFactor: 3}
	if err := o.created(context.Background(), topic, false); err != nil {
		panic(err)
	}
	settle()
	value := func() kafka.Bytes { return kafka.NewBytes([]byte(strings.Repeat("v", 1000))) }
	for partition, each := range []struct {
		name string
		acks kafka.RequiredAcks
	}{{"0", kafka.RequireNone}, {"1", kafka.RequireOne}, {"all", kafka.RequireAll}} {
		o.operation("produce with acks="+each.name, func(ctx context.Context) (any, error) {
			return o.sent(ctx, partition, each.acks, 0, kafka.Record{Value: value()})
		})
	}
	o.operation("get a producer's id", func(ctx context.Context) (any, error) {
		found, err := o.client.InitProducerID(ctx, &kafka.InitProducerIDRequest{
			ProducerID: -1, ProducerEpoch: -1, TransactionTimeoutMs: 1000,
		})
		if err != nil {
			return nil, err
		}
		return nil, found.Error
	})
	for _, codec := range []kafka.Compression{kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		o.operation("produce and consume, "+codec.String(), func(ctx context.Context) (any, error) {
			offset, err := o.sent(ctx, 4, kafka.RequireAll, codec, kafka.Record{Value: value()})
			if err != nil {
				return nil, err
			}
			found, err := o.read(ctx, 4, offset)
			return fmt.Sprint(len(found.Value), " bytes at ", found.Offset), err
		})
	}
	o.operation("headers", func(ctx context.Context) (any, error) {
		headers := []kafka.Header{{Key: "name", Value: []byte("value")}, {Key: "empty"}}
		offset, err := o.sent(ctx, 5, kafka.RequireAll, 0, kafka.Record{Value: value(), Headers: headers})
		if err != nil {
			return nil, err
		}
		found, err := o.read(ctx, 5, offset)
		return fmt.Sprintf("%s", found.Headers), err
	})
	o.operation("null key and value", func(ctx context.Context) (any, error) {
		offset, err := o.sent(ctx, 6, kafka.RequireAll, 0, kafka.Record{})
		if err != nil {
			return nil, err
		}
		found, err := o.read(ctx, 6, offset)
		return fmt.Sprint(found.Key == nil, found.Value == nil), err
	})
	o.operation("a large record", func(ctx context.Context) (any, error) {
		large := kafka.Record{Value: kafka.NewBytes(make([]byte, 900_000))}
		offset, err := o.sent(ctx, 7, kafka.RequireAll, 0, large)
		if err != nil {
			return nil, err
		}
		found, err := o.read(ctx, 7, offset)
		return fmt.Sprint(len(found.Value), " bytes"), err
	})
	o.refuses("a record that is too large", kafka.MessageSizeTooLarge, func(ctx context.Context) (any, error) {
		large := kafka.Record{Value: kafka.NewBytes(make([]byte, 5_000_000))}
		return o.sent(ctx, 7, kafka.RequireAll, 0, large)
	})
	o.operation("write with the Writer", func(ctx context.Context) (any, error) {
		writer := kafka.Writer{
			Addr: kafka.TCP(o.brokers...), Topic: kafkaGoTopic, RequiredAcks: kafka.RequireAll,
			BatchTimeout: 10 * time.Millisecond, Balancer: kafka.BalancerFunc(
				func(kafka.Message, ...int) int { return 3 }),
		}
		defer writer.Close()
		if err := writer.WriteMessages(ctx, kafka.Message{Value: []byte("written")}); err != nil {
			return nil, err
		}
		found, err := o.read(ctx, 3, kafka.FirstOffset)
		return string(found.Value), err
	})
	o.operation("consume from the beginning", func(ctx context.Context) (any, error) {
		found, err := o.read(ctx, 2, kafka.FirstOffset)
		return found.Offset, err
	})
	o.operation("fetch", func(ctx context.Context) (any, error) {
		found, err := o.client.Fetch(ctx, &kafka.FetchRequest{
			Topic: kafkaGoTopic, Partition: 2, Offset: 0, MinBytes: 1, MaxBytes: 1_000_000,
			MaxWait: time.Second,
		})
		if err != nil {
			return nil, err
		}
		if found.Error != nil {
			return nil, found.Error
		}
		count := 0
		for {
			if _, err := found.Records.ReadRecord(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			count++
		}
		return fmt.Sprint(count, " record, high watermark ", found.HighWatermark), nil
	})
}

func (o kafkaGoOperations) offsets() {
	for _, each := range []struct {
		name    string
		request kafka.OffsetRequest
	}{
		{"earliest offset", kafka.FirstOffsetOf(2)}, {"latest offset", kafka.LastOffsetOf(2)},
		{"offset of a time", kafka.TimeOffsetOf(2, time.UnixMilli(1))},
	} {
		o.operation(each.name, func(ctx context.Context) (any, error) {
			found, err := o.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
				Topics: map[string][]kafka.OffsetRequest{kafkaGoTopic: {each.request}},
			})
			if err != nil {
				return nil, err
			}
			result := found.Topics[kafkaGoTopic][0]
			return fmt.Sprint(result.FirstOffset, result.LastOffset, len(result.Offsets)), result.Error
		})
	}
}

func (o kafkaGoOperations) groups() {
	o.operation("list groups", func(ctx context.Context) (any, error) {
		found, err := o.client.ListGroups(ctx, &kafka.ListGroupsRequest{})
		if err != nil {
			return nil, err
		}
		return nil, found.Error
	})
	o.operation("consume in a group", func(ctx context.Context) (any, error) {
		reader := kafka.NewReader(kafka.ReaderConfig{
			Brokers: o.brokers, GroupID: "kafka-go", Topic: kafkaGoTopic, StartOffset: kafka.FirstOffset,
		})
		defer reader.Close()
		_, err := reader.ReadMessage(ctx)
		return nil, err
	})
}
