"""What `make check` leaves out beside tests with the markers `cluster`, `spark` and `browser`.

Measured: tests that take more than two seconds of a core, and folders and files of tests that start
processes or wait. Every package that a user runs is still imported and used by what remains. Names
are those of pytest, below `tests/`; each must begin that of some test.
"""

SLOW = (
    "backends/",
    "conformance/test_campaigns.py",
    "kraft/test_chaos.py",
    "nemeses/test_link_faults.py",
    "results/test_jvm.py",
    "results/test_release_gate.py::test_the_gate_is_right_in_every_situation_of_the_bench",
    "runs/",
    "sim/test_batches.py",
    "ssh/",
    "checkers/test_arrays.py::test_an_order_is_found_for_what_brute_force_calls_right",
    "checkers/test_arrays.py::test_the_verifier_in_columns_agrees_with_the_plain_one",
    "checkers/test_arrays.py::test_repeated_values_make_no_rule_in_columns_wrong",
    "checkers/test_limits.py::test_the_memory_that_is_really_used_stays_near_the_limit",
    "checkers/test_linearizable_oracle.py::test_no_counterexample_to_the_verdict_is_found",
    "checkers/test_linearizable_oracle.py::test_the_verdict_is_that_of_brute_force",
    "checkers/test_rules.py::test_a_rule_says_what_brute_force_says",
    "checkers/test_search_mutants.py::test_the_battery_finds_nothing_in_a_sound_checker",
    "checkers/test_search_mutants.py::test_the_battery_notices",
    "checkers/test_searches.py::test_the_verdict_is_that_of_brute_force",
    "checkers/test_unique_values.py::test_each_key_of_random_histories_gets_the_verdict_of_brute_force",
    "controller/test_snapshots.py::test_a_snapshot_and_the_rest_of_the_log_are_a_replay_from_scratch",
    "harness/test_campaign.py::test_a_quorum_that_keeps_its_promises_passes",
    "harness/test_campaign.py::test_an_interrupt_at_any_moment_leaves_nothing_running_or_cut",
    "harness/test_output.py",
    "harness/test_cli.py::test_doctor_tells_its_findings_as_json",
    "harness/test_schedule.py::test_one_seed_gives_one_schedule_in_any_process",
    "kraft/test_bootstrap_crashes.py::test_power_may_fail_at_every_operation_of_a_quorums_beginning",
    "kraft/test_snapshots.py::test_a_rename_before_the_sync_is_found_by_a_power_cut",
    "kraft/test_snapshots.py::test_power_may_fail_at_every_operation_of_a_deletion_below_a_snapshot",
    "kraft/test_snapshots.py::test_power_may_fail_at_every_operation_of_a_download",
    "kraft/test_snapshots.py::test_power_may_fail_at_every_operation_of_a_snapshot",
    "protocol/test_bounds.py::test_the_guard_passes_what_kio_writes_and_refuses_each_beginning_of_it",
    "runtime/test_fuzz.py::test_no_frame_breaks_stalls_or_silences_the_node",
    "sim/test_brokers.py",
    "sim/test_runner.py",
    "sim/test_stored.py",
    "sim/test_shrinking.py::test_what_few_worlds_show_is_cut_down_in_other_worlds",
    "suite/test_suite.py::test_a_skipped_test_is_listed_with_its_reason_and_fails_in_ci",
    "workloads/test_append_and_brokers.py::test_the_true_node_passes_and_the_mutant_is_found",
    "workloads/test_reconfig.py::test_voters_come_and_go_under_load",
)
