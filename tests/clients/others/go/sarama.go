package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const saramaTopic = "sarama-data"

type saramaOperations struct {
	*Program
	brokers []string
	admin   sarama.ClusterAdmin
}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Net.ReadTimeout = 15 * time.Second
	config.Admin.Timeout = 10 * time.Second
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.MaxMessageBytes = 6_000_000
	config.Producer.Retry.Max = 1
	config.Metadata.AllowAutoTopicCreation = false
	return config
}

// runSarama runs what sarama's ClusterAdmin, producers and consumer offer.
func runSarama(brokers []string) {
	admin := must(sarama.NewClusterAdmin(brokers, saramaConfig()))
	defer admin.Close()
	all := saramaOperations{newProgram("sarama", "github.com/IBM/sarama"), brokers, admin}
	all.topics()
	all.configs()
	all.replicas()
	all.cluster()
	all.users()
	all.records()
	all.offsets()
	all.groups()
	all.createWhileControllersRestart(func(_ context.Context, name string) error {
		return admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false)
	})
	all.do("delete topics", func() (any, error) {
		found, err := admin.ListTopics()
		for name := range found {
			if strings.HasPrefix(name, "sarama") {
				err = errors.Join(err, admin.DeleteTopic(name))
			}
		}
		return nil, err
	})
	all.refuses("delete an unknown topic", sarama.ErrUnknownTopicOrPartition, func() (any, error) {
		return nil, admin.DeleteTopic("sarama-unknown")
	})
}

func (o saramaOperations) do(name string, run func() (any, error)) {
	o.operation(name, func(context.Context) (any, error) { return run() })
}

func (o saramaOperations) refuses(name string, expected error, run func() (any, error)) {
	o.do(name, func() (any, error) {
		seen, err := run()
		if err == nil {
			return nil, fmt.Errorf("not refused: %v", seen)
		}
		var found sarama.KError
		if errors.Is(err, expected) || errors.As(err, &found) && found == expected {
			return "refused", nil
		}
		return nil, err
	})
}

func (o saramaOperations) topics() {
	three := &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 3}
	create := func(name string, detail *sarama.TopicDetail, validateOnly bool) func() (any, error) {
		return func() (any, error) { return nil, o.admin.CreateTopic(name, detail, validateOnly) }
	}
	o.do("create a topic, validate only", create("sarama", three, true))
	o.do("create a topic", create("sarama", three, false))
	o.refuses("create a topic that exists", sarama.ErrTopicAlreadyExists, create("sarama", three, false))
	retention, policy, wrong := "1000", "compact", "abc"
	o.do("create a topic with configurations", create("sarama-configured", &sarama.TopicDetail{
		NumPartitions: 1, ReplicationFactor: 1,
		ConfigEntries: map[string]*string{"retention.ms": &retention, "cleanup.policy": &policy},
	}, false))
	o.refuses("create a topic with an invalid value", sarama.ErrInvalidConfig, create("sarama-invalid",
		&sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1,
			ConfigEntries: map[string]*string{"retention.ms": &wrong}}, false))
	o.do("create a topic with an assignment", create("sarama-placed", &sarama.TopicDetail{
		NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: map[int32][]int32{0: {2, 1}, 1: {3, 2}},
	}, false))
	o.do("create a topic with the brokers' defaults", create("sarama-defaults",
		&sarama.TopicDetail{NumPartitions: -1, ReplicationFactor: -1}, false))
	o.do("list topics", func() (any, error) {
		settle()
		found, err := o.admin.ListTopics()
		own := []string{}
		for name, each := range found {
			if strings.HasPrefix(name, "sarama") {
				own = append(own, fmt.Sprint(name, " ", each.NumPartitions, " ", each.ReplicationFactor,
					" ", len(each.ConfigEntries)))
			}
		}
		sort.Strings(own)
		return own, err
	})
	o.do("describe a topic", o.described)
	o.refuses("describe an unknown topic", sarama.ErrUnknownTopicOrPartition, func() (any, error) {
		found, err := o.admin.DescribeTopics([]string{"sarama-unknown"})
		if err == nil && found[0].Err != sarama.ErrNoError {
			err = found[0].Err
		}
		return nil, err
	})
	o.do("create partitions, validate only", func() (any, error) {
		return nil, o.admin.CreatePartitions("sarama", 5, nil, true)
	})
	o.do("create partitions", func() (any, error) {
		if err := o.admin.CreatePartitions("sarama", 4, nil, false); err != nil {
			return nil, err
		}
		settle()
		return o.described()
	})
}

func (o saramaOperations) described() (any, error) {
	found, err := o.admin.DescribeTopics([]string{"sarama"})
	if err != nil {
		return nil, err
	}
	partitions := found[0].Partitions
	if len(partitions) == 0 {
		return nil, found[0].Err
	}
	return fmt.Sprintf("%d partitions, %d replicas", len(partitions), len(partitions[0].Replicas)), nil
}

func (o saramaOperations) value(name string) string {
	settle()
	found, err := o.admin.DescribeConfig(sarama.ConfigResource{
		Type: sarama.TopicResource, Name: "sarama", ConfigNames: []string{name},
	})
	if err != nil || len(found) != 1 {
		return fmt.Sprint("no ", name, ": ", err)
	}
	return fmt.Sprint(found[0].Value, " ", found[0].Source)
}

func (o saramaOperations) configs() {
	count := func(of sarama.ConfigResource) func() (any, error) {
		return func() (any, error) {
			found, err := o.admin.DescribeConfig(of)
			return fmt.Sprint(len(found), " entries"), err
		}
	}
	topic := sarama.ConfigResource{Type: sarama.TopicResource, Name: "sarama"}
	o.do("describe a topic's configuration", count(topic))
	o.do("describe a broker's configuration",
		count(sarama.ConfigResource{Type: sarama.BrokerResource, Name: "1"}))
	o.do("describe a broker's loggers", func() (any, error) {
		_, err := o.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.BrokerLoggerResource, Name: "1"})
		return nil, err
	})
	o.do("describe synonyms and documentation", func() (any, error) {
		found, err := o.admin.DescribeConfigs([]*sarama.ConfigResource{&topic},
			sarama.DescribeConfigsOptions{IncludeSynonyms: true, IncludeDocumentation: true})
		if err != nil {
			return nil, err
		}
		for _, each := range found[0].Configs {
			if each.Name == "segment.bytes" {
				return fmt.Sprint(len(each.Synonyms), " synonyms"), nil
			}
		}
		return nil, errors.New("no segment.bytes")
	})
	alter := func(operation sarama.IncrementalAlterConfigsOperation, name, value string, validateOnly bool) error {
		return o.admin.IncrementalAlterConfig(sarama.TopicResource, "sarama",
			map[string]sarama.IncrementalAlterConfigsEntry{name: {Operation: operation, Value: &value}},
			validateOnly)
	}
	o.do("alter configurations incrementally", func() (any, error) {
		err := errors.Join(
			alter(sarama.IncrementalAlterConfigsOperationSet, "retention.ms", "60000", false),
			alter(sarama.IncrementalAlterConfigsOperationAppend, "cleanup.policy", "compact", false))
		both := o.value("cleanup.policy")
		err = errors.Join(err,
			alter(sarama.IncrementalAlterConfigsOperationSubtract, "cleanup.policy", "delete", false))
		left := o.value("cleanup.policy")
		err = errors.Join(err,
			alter(sarama.IncrementalAlterConfigsOperationDelete, "cleanup.policy", "", false))
		return []string{o.value("retention.ms"), both, left}, err
	})
	o.do("alter configurations incrementally, validate only", func() (any, error) {
		err := alter(sarama.IncrementalAlterConfigsOperationSet, "retention.ms", "5", true)
		return o.value("retention.ms"), err
	})
	o.refuses("set an invalid value", sarama.ErrInvalidConfig, func() (any, error) {
		return nil, alter(sarama.IncrementalAlterConfigsOperationSet, "cleanup.policy", "foo", false)
	})
	o.refuses("set an unknown name", sarama.ErrInvalidConfig, func() (any, error) {
		return nil, alter(sarama.IncrementalAlterConfigsOperationSet, "nonsense", "1", false)
	})
	legacy := func(name, value string, validateOnly bool) error {
		return o.admin.AlterConfig(sarama.TopicResource, "sarama", map[string]*string{name: &value}, validateOnly)
	}
	o.do("alter configurations", func() (any, error) {
		err := legacy("max.message.bytes", "2000000", false)
		return []string{o.value("max.message.bytes"), o.value("retention.ms")}, err
	})
	o.do("alter configurations, validate only", func() (any, error) {
		err := legacy("retention.ms", "5", true)
		return o.value("retention.ms"), err
	})
}

func (o saramaOperations) replicas() {
	const topic = "sarama-placed"
	o.do("reassign a partition", func() (any, error) {
		if err := o.admin.AlterPartitionReassignments(topic, [][]int32{{3, 1}, {3, 2}}); err != nil {
			return nil, err
		}
		for range 25 {
			settle()
			found, err := o.admin.DescribeTopics([]string{topic})
			if err != nil {
				return nil, err
			}
			for _, each := range found[0].Partitions {
				if each.ID == 0 && fmt.Sprint(each.Replicas) == "[3 1]" && len(each.Isr) == 2 {
					return each.Replicas, nil
				}
			}
		}
		return nil, errors.New("the reassignment does not end")
	})
	o.do("list reassignments", func() (any, error) {
		found, err := o.admin.ListPartitionReassignments(topic, []int32{0})
		return len(found), err
	})
	o.refuses("reassign to an unknown broker", sarama.ErrInvalidReplicaAssignment, func() (any, error) {
		return nil, o.admin.AlterPartitionReassignments(topic, [][]int32{{1, 99}, {3, 2}})
	})
	o.refuses("elect a leader, preferred, where none is needed", sarama.ErrElectionNotNeeded, func() (any, error) {
		return o.elected(sarama.PreferredElection, topic)
	})
	o.refuses("elect a leader, unclean, where none is needed", sarama.ErrElectionNotNeeded, func() (any, error) {
		return o.elected(sarama.UncleanElection, topic)
	})
	o.do("describe log directories", func() (any, error) {
		found, err := o.admin.DescribeLogDirs([]int32{1, 2, 3})
		count := 0
		for _, dirs := range found {
			for _, each := range dirs[0].Topics {
				if each.Topic == "sarama" {
					count += len(each.Partitions)
				}
			}
		}
		return fmt.Sprint(count, " replicas"), err
	})
}

func (o saramaOperations) elected(how sarama.ElectionType, topic string) (any, error) {
	found, err := o.admin.ElectLeaders(how, map[string][]int32{topic: {1}})
	if err != nil {
		return nil, err
	}
	if code := found[topic][1].ErrorCode; code != sarama.ErrNoError {
		return nil, code
	}
	return "elected", nil
}

func (o saramaOperations) cluster() {
	o.do("describe the cluster", func() (any, error) {
		found, _, err := o.admin.DescribeCluster()
		ids := []int{}
		for _, each := range found {
			ids = append(ids, int(each.ID()))
		}
		sort.Ints(ids)
		return ids, err
	})
	o.do("find the controller", func() (any, error) {
		_, err := o.admin.Controller()
		return nil, err
	})
	o.do("update features", func() (any, error) {
		found, err := o.admin.UpdateFeatures([]sarama.FeatureUpdate{
			{Feature: "group.version", MaxVersionLevel: 1},
		})
		for _, each := range found {
			if each.ErrorCode != sarama.ErrNoError {
				err = errors.Join(err, each.ErrorCode)
			}
		}
		return nil, err
	})
}

func (o saramaOperations) users() {
	entity := []sarama.QuotaEntityComponent{{
		EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Name: "sarama",
	}}
	quota := func(remove, validateOnly bool) func() (any, error) {
		return func() (any, error) {
			op := sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 1e6, Remove: remove}
			return nil, o.admin.AlterClientQuotas(entity, op, validateOnly)
		}
	}
	o.do("alter client quotas, validate only", quota(false, true))
	o.do("alter client quotas", quota(false, false))
	o.do("describe client quotas", func() (any, error) {
		settle()
		found, err := o.admin.DescribeClientQuotas([]sarama.QuotaFilterComponent{{
			EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Match: "sarama",
		}}, true)
		if err != nil || len(found) != 1 {
			return len(found), err
		}
		return found[0].Values, nil
	})
	o.do("delete client quotas", quota(true, false))
	results := func(found []*sarama.AlterUserScramCredentialsResult, err error) (any, error) {
		for _, each := range found {
			if each.ErrorCode != sarama.ErrNoError {
				err = errors.Join(err, each.ErrorCode)
			}
		}
		return nil, err
	}
	o.do("create SCRAM credentials", func() (any, error) {
		return results(o.admin.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{{
			Name: "sarama", Mechanism: sarama.SCRAM_MECHANISM_SHA_256, Iterations: 4096,
			Salt: []byte("salt"), Password: []byte("secret"),
		}}))
	})
	o.do("describe SCRAM credentials", func() (any, error) {
		settle()
		found, err := o.admin.DescribeUserScramCredentials([]string{"sarama"})
		if err != nil {
			return nil, err
		}
		return fmt.Sprint(len(found[0].CredentialInfos), " ", found[0].ErrorCode), nil
	})
	o.do("delete SCRAM credentials", func() (any, error) {
		return results(o.admin.DeleteUserScramCredentials([]sarama.AlterUserScramCredentialsDelete{{
			Name: "sarama", Mechanism: sarama.SCRAM_MECHANISM_SHA_256,
		}}))
	})
	resource := sarama.Resource{
		ResourceType: sarama.AclResourceTopic, ResourceName: "sarama",
		ResourcePatternType: sarama.AclPatternLiteral,
	}
	acl := sarama.Acl{
		Principal: "User:a", Host: "*", Operation: sarama.AclOperationRead,
		PermissionType: sarama.AclPermissionAllow,
	}
	filter := sarama.AclFilter{
		ResourceType: sarama.AclResourceAny, ResourcePatternTypeFilter: sarama.AclPatternAny,
		Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny,
	}
	o.do("list ACLs", func() (any, error) { return o.admin.ListAcls(filter) })
	o.do("create an ACL", func() (any, error) { return nil, o.admin.CreateACL(resource, acl) })
	o.do("delete ACLs", func() (any, error) {
		found, err := o.admin.DeleteACL(filter, false)
		return len(found), err
	})
}

func (o saramaOperations) sent(change func(*sarama.Config), message *sarama.ProducerMessage) (int64, error) {
	config := saramaConfig()
	change(config)
	producer, err := sarama.NewSyncProducer(o.brokers, config)
	if err != nil {
		return 0, err
	}
	defer producer.Close()
	message.Topic = saramaTopic
	_, offset, err := producer.SendMessage(message)
	return offset, err
}

func (o saramaOperations) read(partition int32, offset int64) (*sarama.ConsumerMessage, error) {
	config := saramaConfig()
	config.Consumer.Return.Errors = true
	consumer, err := sarama.NewConsumer(o.brokers, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partitioned, err := consumer.ConsumePartition(saramaTopic, partition, offset)
	if err != nil {
		return nil, err
	}
	defer partitioned.Close()
	select {
	case found := <-partitioned.Messages():
		return found, nil
	case err := <-partitioned.Errors():
		return nil, err
	case <-time.After(15 * time.Second):
		return nil, errors.New("no record in 15 s")
	}
}

func (o saramaOperations) records() {
	if err := o.admin.CreateTopic(saramaTopic, &sarama.TopicDetail{NumPartitions: 9, ReplicationFactor: 3}, false); err != nil {
		panic(err)
	}
	settle()
	value := sarama.StringEncoder(strings.Repeat("v", 1000))
	for partition, each := range []struct {
		name string
		acks sarama.RequiredAcks
	}{{"0", sarama.NoResponse}, {"1", sarama.WaitForLocal}, {"all", sarama.WaitForAll}} {
		o.do("produce with acks="+each.name, func() (any, error) {
			return o.sent(func(config *sarama.Config) { config.Producer.RequiredAcks = each.acks },
				&sarama.ProducerMessage{Partition: int32(partition), Value: value})
		})
	}
	o.do("produce idempotently", func() (any, error) {
		return o.sent(func(config *sarama.Config) {
			config.Producer.Idempotent = true
			config.Producer.RequiredAcks = sarama.WaitForAll
			config.Net.MaxOpenRequests = 1
		}, &sarama.ProducerMessage{Partition: 3, Value: value})
	})
	roundTrip := func(change func(*sarama.Config), message *sarama.ProducerMessage) (*sarama.ConsumerMessage, error) {
		offset, err := o.sent(func(config *sarama.Config) {
			config.Producer.RequiredAcks = sarama.WaitForAll
			change(config)
		}, message)
		if err != nil {
			return nil, err
		}
		return o.read(message.Partition, offset)
	}
	nothing := func(*sarama.Config) {}
	for _, codec := range []sarama.CompressionCodec{
		sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD,
	} {
		o.do("produce and consume, "+codec.String(), func() (any, error) {
			found, err := roundTrip(func(config *sarama.Config) { config.Producer.Compression = codec },
				&sarama.ProducerMessage{Partition: 4, Value: value})
			if err != nil {
				return nil, err
			}
			return fmt.Sprint(len(found.Value), " bytes at ", found.Offset), nil
		})
	}
	o.do("headers", func() (any, error) {
		headers := []sarama.RecordHeader{{Key: []byte("name"), Value: []byte("value")}, {Key: []byte("empty")}}
		found, err := roundTrip(nothing, &sarama.ProducerMessage{Partition: 5, Value: value, Headers: headers})
		if err != nil {
			return nil, err
		}
		words := []string{}
		for _, each := range found.Headers {
			words = append(words, fmt.Sprintf("%s=%s", each.Key, each.Value))
		}
		return words, nil
	})
	o.do("null key and value", func() (any, error) {
		found, err := roundTrip(nothing, &sarama.ProducerMessage{Partition: 6})
		if err != nil {
			return nil, err
		}
		return fmt.Sprint(found.Key == nil, found.Value == nil), nil
	})
	o.do("a large record", func() (any, error) {
		found, err := roundTrip(nothing, &sarama.ProducerMessage{
			Partition: 7, Value: sarama.StringEncoder(strings.Repeat("x", 900_000)),
		})
		if err != nil {
			return nil, err
		}
		return fmt.Sprint(len(found.Value), " bytes"), nil
	})
	o.refuses("a record that is too large", sarama.ErrMessageSizeTooLarge, func() (any, error) {
		return o.sent(nothing, &sarama.ProducerMessage{
			Partition: 7, Value: sarama.StringEncoder(strings.Repeat("x", 5_000_000)),
		})
	})
	o.do("consume from the beginning", func() (any, error) {
		found, err := o.read(2, sarama.OffsetOldest)
		if err != nil {
			return nil, err
		}
		return found.Offset, nil
	})
	o.refuses("consume from where there is nothing", sarama.ErrOffsetOutOfRange, func() (any, error) {
		return o.read(2, 1_000_000)
	})
}

func (o saramaOperations) offsets() {
	for _, each := range []struct {
		name string
		time int64
	}{
		{"earliest offset", sarama.OffsetOldest}, {"latest offset", sarama.OffsetNewest},
		{"offset of a time", 1}, {"offset of the highest time", -3},
	} {
		o.do(each.name, func() (any, error) {
			found, err := o.admin.ListOffsets(map[string]map[int32]int64{saramaTopic: {2: each.time}}, nil)
			if err != nil {
				return nil, err
			}
			result := found[saramaTopic][2]
			if result.Err != nil && result.Err != sarama.ErrNoError {
				return nil, result.Err
			}
			return fmt.Sprint(result.Offset, " epoch ", result.LeaderEpoch), nil
		})
	}
	o.do("delete records", func() (any, error) {
		err := o.admin.DeleteRecords(saramaTopic, map[int32]int64{4: 2})
		if err != nil {
			return nil, err
		}
		found, err := o.admin.ListOffsets(map[string]map[int32]int64{saramaTopic: {4: sarama.OffsetOldest}}, nil)
		if err != nil {
			return nil, err
		}
		return found[saramaTopic][4].Offset, nil
	})
}

type saramaGroup struct{ got chan struct{} }

func (saramaGroup) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (saramaGroup) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (g saramaGroup) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	select {
	case <-claim.Messages():
		select {
		case g.got <- struct{}{}:
		default:
		}
	case <-session.Context().Done():
	}
	return nil
}

func (o saramaOperations) groups() {
	o.do("list groups", func() (any, error) {
		_, err := o.admin.ListConsumerGroups()
		return nil, err
	})
	o.operation("consume in a group", func(ctx context.Context) (any, error) {
		config := saramaConfig()
		config.Consumer.Offsets.Initial = sarama.OffsetOldest
		group, err := sarama.NewConsumerGroup(o.brokers, "sarama", config)
		if err != nil {
			return nil, err
		}
		defer group.Close()
		handler := saramaGroup{make(chan struct{}, 1)}
		failed := make(chan error, 1)
		go func() { failed <- group.Consume(ctx, []string{saramaTopic}, handler) }()
		select {
		case <-handler.got:
			return nil, nil
		case err := <-failed:
			return nil, err
		}
	})
	o.do("produce in a transaction", func() (any, error) {
		config := saramaConfig()
		config.Producer.Idempotent = true
		config.Producer.RequiredAcks = sarama.WaitForAll
		config.Net.MaxOpenRequests = 1
		config.Producer.Transaction.ID = "sarama"
		config.Producer.Transaction.Retry.Max = 3
		producer, err := sarama.NewSyncProducer(o.brokers, config)
		if err != nil {
			return nil, err
		}
		defer producer.Close()
		if err := producer.BeginTxn(); err != nil {
			return nil, err
		}
		_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: saramaTopic, Partition: 8})
		return nil, errors.Join(err, producer.CommitTxn())
	})
}
