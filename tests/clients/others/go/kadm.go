package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type kadmOperations struct {
	*Program
	brokers []string
	admin   *kadm.Client
}

// runKadm runs what franz-go's kadm offers, and kgo's producer and consumer.
func runKadm(brokers []string) {
	client := must(kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(100_000_000)))
	defer client.Close()
	admin := kadm.NewClient(client)
	program := newProgram("kadm", "github.com/twmb/franz-go/pkg/kadm")
	all := kadmOperations{program, brokers, admin}
	all.topics()
	all.configs()
	all.replicas()
	all.cluster()
	all.users()
	all.records()
	all.offsets()
	all.groups()
	all.createWhileControllersRestart(func(ctx context.Context, name string) error {
		_, err := admin.CreateTopic(ctx, 1, 1, nil, name)
		return err
	})
	all.operation("delete topics", func(ctx context.Context) (any, error) {
		found, err := admin.ListTopics(ctx)
		if err != nil {
			return nil, err
		}
		own := []string{}
		for _, each := range found.Names() {
			if strings.HasPrefix(each, "kadm") {
				own = append(own, each)
			}
		}
		deleted, err := admin.DeleteTopics(ctx, own...)
		return nil, errors.Join(err, deleted.Error())
	})
	all.refused("delete an unknown topic", "UNKNOWN_TOPIC_OR_PARTITION", func(ctx context.Context) (any, error) {
		return admin.DeleteTopic(ctx, "kadm-unknown")
	})
}

func words(found kadm.CreateTopicResponse, err error) (any, error) {
	return fmt.Sprintf("%d partitions, %d replicas, %d entries",
		found.NumPartitions, found.ReplicationFactor, len(found.Configs)), err
}

func (o kadmOperations) topics() {
	o.operation("create a topic, validate only", func(ctx context.Context) (any, error) {
		found, err := o.admin.ValidateCreateTopics(ctx, 3, 3, nil, "kadm")
		if err != nil {
			return nil, err
		}
		return words(found["kadm"], found.Error())
	})
	create := func(ctx context.Context) (any, error) {
		return words(o.admin.CreateTopic(ctx, 3, 3, nil, "kadm"))
	}
	o.operation("create a topic", create)
	o.refused("create a topic that exists", "TOPIC_ALREADY_EXISTS", create)
	o.operation("create a topic with configurations", func(ctx context.Context) (any, error) {
		configs := map[string]*string{
			"retention.ms": kadm.StringPtr("1000"), "cleanup.policy": kadm.StringPtr("compact"),
		}
		return words(o.admin.CreateTopic(ctx, 1, 1, configs, "kadm-configured"))
	})
	o.refused("create a topic with an invalid value", "INVALID_CONFIG", func(ctx context.Context) (any, error) {
		configs := map[string]*string{"retention.ms": kadm.StringPtr("abc")}
		return o.admin.CreateTopic(ctx, 1, 1, configs, "kadm-invalid")
	})
	o.operation("create a topic with the brokers' defaults", func(ctx context.Context) (any, error) {
		return words(o.admin.CreateTopic(ctx, -1, -1, nil, "kadm-defaults"))
	})
	o.operation("list topics", func(ctx context.Context) (any, error) {
		settle()
		found, err := o.admin.ListTopics(ctx)
		own := []string{}
		for _, each := range found.Names() {
			if strings.HasPrefix(each, "kadm") {
				own = append(own, each)
			}
		}
		return own, err
	})
	o.operation("describe a topic", o.described)
	o.refused("describe an unknown topic", "UNKNOWN_TOPIC_OR_PARTITION", func(ctx context.Context) (any, error) {
		found, err := o.admin.ListTopics(ctx, "kadm-unknown")
		return nil, errors.Join(err, found.Error())
	})
	o.operation("create partitions, validate only", func(ctx context.Context) (any, error) {
		found, err := o.admin.ValidateUpdatePartitions(ctx, 5, "kadm")
		return nil, errors.Join(err, found.Error())
	})
	o.operation("create partitions", func(ctx context.Context) (any, error) {
		found, err := o.admin.UpdatePartitions(ctx, 4, "kadm")
		if err := errors.Join(err, found.Error()); err != nil {
			return nil, err
		}
		settle()
		return o.described(ctx)
	})
}

func (o kadmOperations) described(ctx context.Context) (any, error) {
	found, err := o.admin.ListTopics(ctx, "kadm")
	if err := errors.Join(err, found.Error()); err != nil {
		return nil, err
	}
	partitions := found["kadm"].Partitions
	return fmt.Sprintf("%d partitions, %d replicas",
		len(partitions), partitions.NumReplicas()), nil
}

func one(found kadm.ResourceConfigs, err error) ([]kadm.Config, error) {
	if err != nil {
		return nil, err
	}
	return found[0].Configs, found[0].Err
}

func (o kadmOperations) value(ctx context.Context, key string) string {
	settle()
	configs, err := one(o.admin.DescribeTopicConfigs(ctx, "kadm"))
	for _, each := range configs {
		if each.Key == key {
			return fmt.Sprint(each.MaybeValue(), " ", each.Source, " ", len(each.Synonyms))
		}
	}
	return fmt.Sprint("no ", key, ": ", err)
}

func set(op kadm.IncrementalOp, key, value string) []kadm.AlterConfig {
	return []kadm.AlterConfig{{Op: op, Name: key, Value: &value}}
}

func altered(found kadm.AlterConfigsResponses, err error) error {
	if err != nil {
		return err
	}
	for _, each := range found {
		err = errors.Join(err, each.Err)
	}
	return err
}

func (o kadmOperations) configs() {
	o.operation("describe a topic's configuration", func(ctx context.Context) (any, error) {
		found, err := one(o.admin.DescribeTopicConfigs(ctx, "kadm"))
		return fmt.Sprint(len(found), " entries"), err
	})
	o.operation("describe a broker's configuration", func(ctx context.Context) (any, error) {
		found, err := one(o.admin.DescribeBrokerConfigs(ctx, 1))
		return fmt.Sprint(len(found), " entries"), err
	})
	o.operation("describe the brokers' common configuration", func(ctx context.Context) (any, error) {
		_, err := one(o.admin.DescribeBrokerConfigs(ctx))
		return nil, err
	})
	alter := func(ctx context.Context, op kadm.IncrementalOp, key, value string) error {
		return altered(o.admin.AlterTopicConfigs(ctx, set(op, key, value), "kadm"))
	}
	o.operation("alter configurations incrementally", func(ctx context.Context) (any, error) {
		err := errors.Join(
			alter(ctx, kadm.SetConfig, "retention.ms", "60000"),
			alter(ctx, kadm.AppendConfig, "cleanup.policy", "compact"))
		both := o.value(ctx, "cleanup.policy")
		err = errors.Join(err, alter(ctx, kadm.SubtractConfig, "cleanup.policy", "delete"))
		left := o.value(ctx, "cleanup.policy")
		err = errors.Join(err, alter(ctx, kadm.DeleteConfig, "cleanup.policy", ""))
		return []string{o.value(ctx, "retention.ms"), both, left}, err
	})
	o.operation("alter configurations incrementally, validate only", func(ctx context.Context) (any, error) {
		change := set(kadm.SetConfig, "retention.ms", "5")
		err := altered(o.admin.ValidateAlterTopicConfigs(ctx, change, "kadm"))
		return o.value(ctx, "retention.ms"), err
	})
	o.refused("set an invalid value", "INVALID_CONFIG", func(ctx context.Context) (any, error) {
		return nil, alter(ctx, kadm.SetConfig, "cleanup.policy", "foo")
	})
	o.refused("set an unknown name", "INVALID_CONFIG", func(ctx context.Context) (any, error) {
		return nil, alter(ctx, kadm.SetConfig, "nonsense", "1")
	})
	o.operation("alter configurations", func(ctx context.Context) (any, error) {
		change := set(kadm.SetConfig, "max.message.bytes", "2000000")
		err := altered(o.admin.AlterTopicConfigsState(ctx, change, "kadm"))
		return []string{o.value(ctx, "max.message.bytes"), o.value(ctx, "retention.ms")}, err
	})
	o.operation("alter configurations, validate only", func(ctx context.Context) (any, error) {
		change := set(kadm.SetConfig, "retention.ms", "5")
		err := altered(o.admin.ValidateAlterTopicConfigsState(ctx, change, "kadm"))
		return o.value(ctx, "retention.ms"), err
	})
	o.operation("alter a broker's configuration", func(ctx context.Context) (any, error) {
		const key = "message.max.bytes"
		err := altered(o.admin.AlterBrokerConfigs(ctx, set(kadm.SetConfig, key, "2000000"), 2))
		undo := altered(o.admin.AlterBrokerConfigs(ctx, set(kadm.DeleteConfig, key, ""), 2))
		return nil, errors.Join(err, undo)
	})
	o.operation("alter the brokers' common configuration", func(ctx context.Context) (any, error) {
		const key = "message.max.bytes"
		err := altered(o.admin.AlterBrokerConfigs(ctx, set(kadm.SetConfig, key, "3000000")))
		undo := altered(o.admin.AlterBrokerConfigs(ctx, set(kadm.DeleteConfig, key, "")))
		return nil, errors.Join(err, undo)
	})
	o.operation("list resources with configurations", func(ctx context.Context) (any, error) {
		_, err := o.admin.ListConfigResources(ctx)
		return nil, err
	})
}

func (o kadmOperations) replicas() {
	reassign := func(ctx context.Context, to ...int32) error {
		request := kadm.AlterPartitionAssignmentsReq{}
		request.Assign("kadm-defaults", 0, to)
		found, err := o.admin.AlterPartitionAssignments(ctx, request)
		return errors.Join(err, found.Error())
	}
	o.operation("reassign a partition", func(ctx context.Context) (any, error) {
		if err := reassign(ctx, 2, 1); err != nil {
			return nil, err
		}
		for ctx.Err() == nil {
			settle()
			found, err := o.admin.ListTopics(ctx, "kadm-defaults")
			if err != nil {
				return nil, err
			}
			first := found["kadm-defaults"].Partitions[0]
			if fmt.Sprint(first.Replicas) == "[2 1]" && len(first.ISR) == 2 {
				return first.Replicas, nil
			}
		}
		return nil, errors.New("the reassignment does not end")
	})
	partition := kadm.TopicsSet{}
	partition.Add("kadm-defaults", 0)
	o.operation("list reassignments", func(ctx context.Context) (any, error) {
		found, err := o.admin.ListPartitionReassignments(ctx, partition)
		return len(found), err
	})
	o.refused("cancel a reassignment that is none", "NO_REASSIGNMENT_IN_PROGRESS", func(ctx context.Context) (any, error) {
		request := kadm.AlterPartitionAssignmentsReq{}
		request.CancelAssign("kadm-defaults", 0)
		found, err := o.admin.AlterPartitionAssignments(ctx, request)
		return nil, errors.Join(err, found.Error())
	})
	o.refused("reassign to an unknown broker", "INVALID_REPLICA_ASSIGNMENT", func(ctx context.Context) (any, error) {
		return nil, reassign(ctx, 1, 99)
	})
	o.operation("elect the preferred leader", func(ctx context.Context) (any, error) {
		if err := reassign(ctx, 1, 2); err != nil {
			return nil, err
		}
		settle()
		_, err := o.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, partition)
		settle()
		found, metadata := o.admin.ListTopics(ctx, "kadm-defaults")
		if err := errors.Join(err, metadata); err != nil {
			return nil, err
		}
		return fmt.Sprint("led by ", found["kadm-defaults"].Partitions[0].Leader), nil
	})
	o.operation("describe log directories", func(ctx context.Context) (any, error) {
		own := kadm.TopicsSet{}
		own.Add("kadm", 0, 1, 2, 3)
		found, err := o.admin.DescribeAllLogDirs(ctx, own)
		count := 0
		found.Each(func(each kadm.DescribedLogDir) {
			each.Topics.Each(func(kadm.DescribedLogDirPartition) { count++ })
		})
		return fmt.Sprint(count, " replicas"), err
	})
	o.operation("move a replica to a log directory", func(ctx context.Context) (any, error) {
		own := kadm.TopicsSet{}
		own.Add("kadm", 0)
		dirs, err := o.admin.DescribeBrokerLogDirs(ctx, 1, own)
		if err != nil {
			return nil, err
		}
		request := kadm.AlterReplicaLogDirsReq{}
		request.Add(dirs.Sorted()[0].Dir, own)
		found, err := o.admin.AlterBrokerReplicaLogDirs(ctx, 1, request)
		for _, each := range found.Sorted() {
			err = errors.Join(err, each.Err)
		}
		return nil, err
	})
}

func (o kadmOperations) cluster() {
	o.operation("describe the cluster", func(ctx context.Context) (any, error) {
		found, err := o.admin.BrokerMetadata(ctx)
		return fmt.Sprint(found.Cluster, " ", found.Brokers.NodeIDs()), err
	})
	o.operation("authorized operations of a topic", func(ctx context.Context) (any, error) {
		found, err := o.admin.Metadata(kadm.WithAuthorizedOps(ctx), "kadm")
		operations := []string{}
		for _, each := range found.Topics["kadm"].AuthorizedOperations {
			operations = append(operations, each.String())
		}
		sort.Strings(operations)
		return operations, err
	})
	o.operation("versions of APIs", func(ctx context.Context) (any, error) {
		found, err := o.admin.ApiVersions(ctx)
		return fmt.Sprint(len(found), " nodes"), err
	})
	o.operation("update features, validate only", func(ctx context.Context) (any, error) {
		update := kadm.FeatureUpdate{Feature: "share.version", MaxVersionLevel: 1, UpgradeType: 1}
		found, err := o.admin.UpdateFeatures(ctx, true, update)
		for _, each := range found {
			err = errors.Join(err, each.Err)
		}
		return nil, err
	})
}

func (o kadmOperations) users() {
	name := "kadm"
	entity := kadm.ClientQuotaEntity{{Type: "user", Name: &name}}
	quota := func(op kadm.AlterClientQuotaOp) []kadm.AlterClientQuotaEntry {
		return []kadm.AlterClientQuotaEntry{{Entity: entity, Ops: []kadm.AlterClientQuotaOp{op}}}
	}
	rate := kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Value: 1e6}
	done := func(found kadm.AlteredClientQuotas, err error) (any, error) {
		for _, each := range found {
			err = errors.Join(err, each.Err)
		}
		return nil, err
	}
	o.operation("alter client quotas, validate only", func(ctx context.Context) (any, error) {
		return done(o.admin.ValidateAlterClientQuotas(ctx, quota(rate)))
	})
	o.operation("alter client quotas", func(ctx context.Context) (any, error) {
		return done(o.admin.AlterClientQuotas(ctx, quota(rate)))
	})
	o.operation("describe client quotas", func(ctx context.Context) (any, error) {
		settle()
		found, err := o.admin.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{
			{Type: "user", MatchName: &name, MatchType: 0},
		})
		if err != nil || len(found) != 1 {
			return len(found), err
		}
		return fmt.Sprint(found[0].Entity, " ", found[0].Values), nil
	})
	o.operation("delete client quotas", func(ctx context.Context) (any, error) {
		return done(o.admin.AlterClientQuotas(ctx,
			quota(kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Remove: true})))
	})
	o.operation("create SCRAM credentials", func(ctx context.Context) (any, error) {
		found, err := o.admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{
			{User: name, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "secret"},
		})
		return nil, errors.Join(err, found.Error())
	})
	o.operation("describe SCRAM credentials", func(ctx context.Context) (any, error) {
		settle()
		found, err := o.admin.DescribeUserSCRAMs(ctx, name)
		return found[name].CredInfos, err
	})
	o.operation("delete SCRAM credentials", func(ctx context.Context) (any, error) {
		found, err := o.admin.AlterUserSCRAMs(ctx,
			[]kadm.DeleteSCRAM{{User: name, Mechanism: kadm.ScramSha256}}, nil)
		return nil, errors.Join(err, found.Error())
	})
	acl := func() *kadm.ACLBuilder {
		return kadm.NewACLs().Topics(name).Allow("User:a").AllowHosts().Operations(kadm.OpRead)
	}
	o.operation("list ACLs", func(ctx context.Context) (any, error) {
		found, err := o.admin.DescribeACLs(ctx, kadm.NewACLs().AnyResource().Allow().AllowHosts().Operations())
		for _, each := range found {
			err = errors.Join(err, each.Err)
		}
		return nil, err
	})
	o.operation("create an ACL", func(ctx context.Context) (any, error) {
		found, err := o.admin.CreateACLs(ctx, acl())
		for _, each := range found {
			err = errors.Join(err, each.Err)
		}
		return nil, err
	})
	o.operation("delete ACLs", func(ctx context.Context) (any, error) {
		found, err := o.admin.DeleteACLs(ctx, acl())
		for _, each := range found {
			err = errors.Join(err, each.Err)
		}
		return nil, err
	})
	o.operation("list delegation tokens", func(ctx context.Context) (any, error) {
		_, err := o.admin.DescribeDelegationTokens(ctx)
		return nil, err
	})
}
