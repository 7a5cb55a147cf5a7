# Generated from the option table by hvdray-gen-cli; do not edit.
# The words of the program of hvdray run and check; fails before it.
function __hvdray_program
    set -l with_value --import -f --file -x --env --cwd --sync --omp-threads --preload --horovod -np --num-proc -H --hosts -hostfile --hostfile --cluster --slots-per-host --host-discovery-script --min-np --min-num-proc --max-np --max-num-proc --elastic-timeout --reset-limit --blacklist-cooldown-range --elastic-mode --join --success --discovery-interval --discovery-timeout --straggler-timeout --settle --max-restarts --grace --timeout --start-timeout --heartbeat-timeout --output-filename --tag-output --stdin --color --report --events --junit --trace --record --network-interfaces --network-interface --master-port -p --ssh-port -i --ssh-identity-file --ssh-transport --ssh-config --strict-host-key-checking --launch-agent --remote-dir --ray-address --ray-verify --ray-headers --ray-python --ray-log-limit --working-dir --exclude --runtime-env --runtime-env-json --num-hosts --num-slots --cpus-per-slot --gpus-per-slot --resources-per-slot --label-selector --strategy --placement-group-timeout --gpu-visibility --backend --config-file --fusion-threshold-mb --cycle-time-ms --cache-capacity --autotune-log-file --autotune-warmup-samples --autotune-steps-per-sample --autotune-bayes-opt-max-samples --autotune-gaussian-process-noise --timeline-filename --stall-check-warning-time-seconds --stall-check-shutdown-time-seconds --num-nccl-streams --thread-affinity --gloo-timeout-seconds --log-level --mpi-args --binding-args
    while set -q argv[1]
        switch $argv[1]
            case --
                string escape -- $argv[2..]
                return 0
            case '-*'
                contains -- $argv[1] $with_value; and set -e argv[1]
                set -e argv[1]
            case '*'
                string escape -- $argv
                return 0
        end
    end
    return 1
end
# The command of hvdray, and the words after it.
function __hvdray_words
    set -l words (commandline -opc)
    string match -q '*horovodrun' -- $words[1]; and set words[1] run; or set -e words[1]
    set -q words[1]; and printf "%s\n" $words  # string join fails with one
end
# Whether one of the given commands expects an option or an argument of its own.
function __hvdray_of
    set -l words (__hvdray_words)
    contains -- "$words[1]" $argv; or return
    not contains -- $words[1] run check; or not __hvdray_program $words[2..] >/dev/null
end
function __hvdray_errors
    set -l words (commandline -opc)
    $words[1] explain | string split -f 1 ' '
end
function __hvdray_complete_program
    set -l words (__hvdray_words)
    set -l line (string join ' ' -- (__hvdray_program $words[2..]) (commandline -ct))
    string match -q -- '-*' $line; or complete -C "$line"
end
complete -c hvdray -n 'not __hvdray_words' -f -a run -d 'run a command on many slots and report the result'
complete -c hvdray -n 'not __hvdray_words' -f -a check -d 'check whether a job would start, and describe its hosts'
complete -c hvdray -n 'not __hvdray_words' -f -a serve -d 'hold hosts and run gangs of workers for a program'
complete -c hvdray -n 'not __hvdray_words' -f -a replay -d 'replay an elastic job\'s recording and check its rules'
complete -c hvdray -n 'not __hvdray_words' -f -a follow -d 'follow a job submitted to Ray'
complete -c hvdray -n 'not __hvdray_words' -f -a up -d 'start a cluster from its file, or bring it up to date'
complete -c hvdray -n 'not __hvdray_words' -f -a down -d 'end a cluster, and check that nothing of it is left'
complete -c hvdray -n 'not __hvdray_words' -f -a stop -d 'stop jobs on Ray, by name or all of a cluster'
complete -c hvdray -n 'not __hvdray_words' -f -a status -d 'show a cluster: its machines, usage, pending requests; or a job'
complete -c hvdray -n 'not __hvdray_words' -f -a monitor -d 'watch a cluster until Ctrl-C'
complete -c hvdray -n 'not __hvdray_words' -f -a exec -d 'run a command on a cluster\'s head'
complete -c hvdray -n 'not __hvdray_words' -f -a attach -d 'open a shell on a cluster\'s head'
complete -c hvdray -n 'not __hvdray_words' -f -a submit -d 'run a script on a cluster'
complete -c hvdray -n 'not __hvdray_words' -f -a rsync-up -d 'copy files to a cluster'
complete -c hvdray -n 'not __hvdray_words' -f -a rsync-down -d 'copy files from a cluster'
complete -c hvdray -n 'not __hvdray_words' -f -a get-head-ip -d 'print the address of a cluster\'s head'
complete -c hvdray -n 'not __hvdray_words' -f -a get-worker-ips -d 'print the addresses of a cluster\'s workers'
complete -c hvdray -n 'not __hvdray_words' -f -a dashboard -d 'forward a cluster\'s dashboard to this machine'
complete -c hvdray -n 'not __hvdray_words' -f -a logs -d 'show the logs of a cluster\'s machine, or of a job on Ray'
complete -c hvdray -n 'not __hvdray_words' -f -a jobs -d 'list hvdray\'s jobs on a Ray cluster and their status'
complete -c hvdray -n 'not __hvdray_words' -f -a slots -d 'show how many slots a job could get from a Ray cluster now'
complete -c hvdray -n 'not __hvdray_words' -f -a cluster -d 'print a cluster file as hvdray or Ray reads it, or rewrite an old one'
complete -c hvdray -n '__hvdray_of cluster; and test (count (__hvdray_words)) = 1' -a 'config migrate'
complete -c hvdray -n 'not __hvdray_words' -f -a bench -d 'measure collectives: time and bandwidth over size'
complete -c hvdray -n 'not __hvdray_words' -f -a tune -d 'search for hyperparameters, each trial on its slots'
complete -c hvdray -n '__hvdray_of tune; and test (count (__hvdray_words)) = 1' -a 'show'
complete -c hvdray -n 'not __hvdray_words' -f -a rendezvous -d 'serve Horovod\'s rendezvous for workers that hvdray does not start'
complete -c hvdray -n 'not __hvdray_words' -f -a explain -d 'say what an error means and what to do about it'
complete -c hvdray -n '__hvdray_of help' -f -a 'run check serve replay follow up down stop status monitor exec attach submit rsync-up rsync-down get-head-ip get-worker-ips dashboard logs jobs slots cluster bench tune rendezvous explain'
complete -c hvdray -n '__hvdray_of explain' -f -a '(__hvdray_errors)'
complete -c hvdray -c horovodrun -n 'contains -- (__hvdray_words)[1] run check' -f -a '(__hvdray_complete_program)'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve replay follow up down stop status monitor exec attach submit rsync-up rsync-down get-head-ip get-worker-ips dashboard logs jobs slots cluster bench tune rendezvous explain' -s h -d 'Show this help and exit'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve replay follow up down stop status monitor exec attach submit rsync-up rsync-down get-head-ip get-worker-ips dashboard logs jobs slots cluster bench tune rendezvous explain' -l help -d 'Show this help and exit'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve replay bench' -s v -d 'Show the version and exit'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve replay submit bench' -l version -d 'Show the version and exit'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -o cb -d 'Show what this build supports and exit'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l check-build -d 'Show what this build supports and exit'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit' -s f -d 'Read the job from a YAML file' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l file -d 'Read the job from a YAML file' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -s x -d 'Set a variable for every worker; without =VALUE, pass on its current value' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l env -d 'Set a variable for every worker; without =VALUE, pass on its current value' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l clean-env -d 'Pass on only PATH, HOME, LANG, HOROVOD_*, NCCL_* and what -x sets'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l keep-rank-variables -d 'Pass on variables in which another launcher names a rank, which are true of hvdray\'s own process only: SLURM_PROCID, OMPI_COMM_WORLD_*, PMIX_RANK, PMI_*, PET_*, '
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l cwd -d 'Working directory of the workers' -x -a '(__fish_complete_directories)'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l sync -d 'Copy this directory to the other hosts before the workers start' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l no-torch-env -d 'Do not set torchrun\'s variables (RANK, WORLD_SIZE, MASTER_ADDR, ...) in addition to Horovod\'s'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l omp-threads -d 'Set OMP_NUM_THREADS, MKL_NUM_THREADS and OPENBLAS_NUM_THREADS of each worker' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l channel -d 'Give each worker a channel, a socket whose number is in HVDRAY_CHANNEL_FD: a line {"type":"report","metrics":{...}} written there becomes an event'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l preload -d 'Import these modules once a host and fork the workers from there, restarts included; the command must be Python' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l horovod -d 'Which Horovod workers import' -x -a 'installed builtin'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -o np -d 'Number of workers to run; in an elastic job, number of slots to wait for before starting' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l num-proc -d 'Number of workers to run; in an elastic job, number of slots to wait for before starting' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench rendezvous' -s H -d 'Hosts and the number of workers each can run: node1:4, user@node1:4, node[01-32]:4, [fe80::1]:4; with an SSH port, ssh://node1:2222:4' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench rendezvous' -l hosts -d 'Hosts and the number of workers each can run: node1:4, user@node1:4, node[01-32]:4, [fe80::1]:4; with an SSH port, ssh://node1:2222:4' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -o hostfile -d 'Read the hosts from a file, one \'HOST slots=N\' or \'HOST\' per line; \'user=\' and \'port=\' may follow' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l hostfile -d 'Read the hosts from a file, one \'HOST slots=N\' or \'HOST\' per line; \'user=\' and \'port=\' may follow' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow stop status submit logs jobs slots bench' -l cluster -d 'Read the hosts from a cluster YAML file; its section \'hvdray: {run: ...}\' may hold the job' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l slots-per-host -d 'Slots of a host that the host file or the discovery script gives without a number' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l disable-cache -d 'Accepted for old scripts; hvdray does not cache host checks'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l host-discovery-script -d 'Shell command that prints the current hosts, one \'HOST\' or \'HOST:SLOTS\' per line' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l min-np -d 'Minimum number of workers; the job pauses below it' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l min-num-proc -d 'Minimum number of workers; the job pauses below it' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l max-np -d 'Maximum number of workers; further slots stay unused' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l max-num-proc -d 'Maximum number of workers; further slots stay unused' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l elastic-timeout -d 'How long to wait for enough slots after a change' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l reset-limit -d 'Number of membership changes the job survives' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l blacklist-cooldown-range -d 'Minimum and maximum number of seconds to exclude a host that failed' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l elastic-mode -d 'horovod: workers survive a change, as scripts with hvd.elastic expect' -x -a 'horovod gang'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l join -d 'warm: training goes on until new workers are ready' -x -a 'warm together'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l success -d 'Which workers of the last gang must succeed for the job to succeed' -x -a 'all any'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l discovery-interval -d 'Pause between two runs of the discovery script' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l discovery-timeout -d 'Kill the discovery script after this time and count the run as failed' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l straggler-timeout -d 'How long workers wait for the others after a change' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l settle -d 'With --elastic-mode gang: how long more slots must have been listed before all workers are restarted for them' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l no-break-connections -d 'After a loss, leave survivors to Gloo\'s own timeout (30 s) instead of closing the connections between them'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l max-restarts -d 'How often to restart all workers after a failure; in elastic jobs only with --elastic-mode gang' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l grace -d 'Time between SIGTERM and SIGKILL when stopping workers; after Ctrl-C also between SIGINT and SIGTERM' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow stop status monitor submit logs jobs slots bench' -l timeout -d 'Stop the job after this time and exit with code 124' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow up down stop status monitor exec attach submit rsync-up rsync-down dashboard logs jobs slots bench' -l start-timeout -d 'How long hosts may take to become ready' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l heartbeat-timeout -d 'Treat a host that is silent for this long as lost' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow submit bench' -l output-filename -d 'Also write each worker\'s output to DIR/rank.N/stdout and stderr; a restart moves earlier output to DIR/attempt.K/rank.N' -x -a '(__fish_complete_directories)'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -o prefix-timestamp -d 'Prefix each line of output with the local time'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l prefix-output-with-timestamp -d 'Prefix each line of output with the local time'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l tag-output -d 'Prefix of each line of output: [rank]<stdout>:, [host:rank]<stdout>:, or none' -x -a 'rank host none'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l stdin -d 'Worker that reads the launcher\'s standard input' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l color -d 'Colour messages' -x -a 'auto always never'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve replay follow submit bench rendezvous' -s q -d 'Print only errors from hvdray itself'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve replay follow submit bench rendezvous' -l quiet -d 'Print only errors from hvdray itself'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve up down bench' -l verbose -d 'Print what hvdray does and why'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l log-json -d 'Print all lines of hvdray itself, including the verdict and usage errors, as JSON objects'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve up submit bench' -l dry-run -d 'Check options and local files and place the ranks, but contact no host and start nothing, except a discovery script, once'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l print-plan -d 'Show which rank runs where and exit' -f -a 'text json'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l print-config -d 'Show each setting and its origin and exit' -f -a 'text json'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow up down submit bench' -l report -d 'Write a report of the job as one JSON object' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow up down submit bench' -l events -d 'Write events as JSON lines, as they happen' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow submit bench' -l junit -d 'Write the result as JUnit XML, one test case per rank' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow submit bench' -l trace -d 'Write a Chrome trace of the launch' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow submit bench' -l record -d 'Record an elastic job for hvdray replay' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l network-interfaces -d 'Network interfaces that workers may use' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l network-interface -d 'Network interfaces that workers may use' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l master-port -d 'MASTER_PORT for torch.distributed' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow stop status monitor submit dashboard logs jobs slots bench rendezvous' -l no-peer-check -d 'Let other users\' processes on a host use the rendezvous, too, and trust a Ray dashboard of theirs, on this machine or on the head'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow up down stop status logs jobs slots bench' -s p -d 'SSH port of hosts that are given without one' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow up down stop status submit logs jobs slots bench' -l ssh-port -d 'SSH port of hosts that are given without one' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow up down stop status monitor exec attach submit rsync-up rsync-down dashboard logs jobs slots' -s i -d 'Private key for SSH' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow up down stop status monitor exec attach submit rsync-up rsync-down dashboard logs jobs slots bench' -l ssh-identity-file -d 'Private key for SSH' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve up down submit bench' -l ssh-transport -d 'SSH client: a library in this process, or the system\'s ssh' -x -a 'auto libssh2 openssh'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow up down stop status monitor exec attach submit rsync-up rsync-down dashboard logs jobs slots bench' -l ssh-config -d 'SSH configuration file, as for ssh -F' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow up down stop status monitor exec attach submit rsync-up rsync-down dashboard logs jobs slots bench' -l strict-host-key-checking -d 'Which host keys SSH accepts' -x -a 'accept-new yes no'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l launch-agent -d 'Reach hosts with this command instead of SSH' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve up down submit bench' -l remote-dir -d 'Directory for the agent on other hosts' -x -a '(__fish_complete_directories)'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve stop status submit logs jobs slots bench' -l ray -d 'Take the slots from a Ray cluster'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow stop status submit logs jobs slots bench' -l ray-address -d 'URL of the cluster\'s dashboard, for example http://10.0.0.10:8265' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow stop status submit logs jobs slots bench' -l ray-verify -d 'Whether to verify the certificate of an https:// dashboard, or the file or directory of the certificate authorities to trust' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve follow stop status submit logs jobs slots bench' -l ray-headers -d 'Headers for every request to the dashboard, a JSON object of strings: {"Cookie": "..."}' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l ray-python -d 'Python command on the head node that can import ray, with its arguments, parsed by /bin/sh there: \'conda run -n ray python\'' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l keep-ray-env -d 'Keep RAY_* and OMP_NUM_THREADS in workers as Ray sets them'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l detach -d 'Submit the job, print how to follow it, and exit'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l stop-with-client -d 'Stop the job once this command has been gone for a minute, for example with a killed CI runner'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l ray-log-limit -d 'Maximum size of the output on the head\'s disk, for example 500MiB' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l working-dir -d 'Directory to send with the job; workers start in it' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l exclude -d 'Also exclude this from --working-dir, a line as in .gitignore' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l runtime-env -d 'Ray runtime environment for the workers, a YAML file or JSON: pip, uv, conda, py_modules, env_vars, image_uri, working_dir, config, as for ray job submit' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l runtime-env-json -d 'Ray runtime environment for the workers, a YAML file or JSON: pip, uv, conda, py_modules, env_vars, image_uri, working_dir, config, as for ray job submit' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l num-hosts -d 'Take the same number of slots on each of N nodes' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l num-slots -d 'Slots on each of the --num-hosts nodes' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit slots bench' -l cpus-per-slot -d 'CPUs to reserve per slot' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit slots bench' -l gpus-per-slot -d 'GPUs to reserve per slot; needs --use-gpu' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit slots bench' -l use-gpu -d 'Reserve GPUs'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit slots bench' -l resources-per-slot -d 'Other resources to reserve per slot, for example my_disk=0.5 or memory=1GiB' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit slots bench' -l label-selector -d 'Use only nodes with this label; VALUE may be !spot, in(a,b) or !in(a,b)' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l strategy -d 'Ray\'s placement strategy' -x -a 'auto PACK SPREAD STRICT_PACK STRICT_SPREAD'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l placement-group-timeout -d 'How long to wait for Ray to reserve the slots' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l gpu-visibility -d 'CUDA_VISIBLE_DEVICES of a worker' -x -a 'host rank'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit' -l backend -d 'How to start the workers on the hosts of --cluster: through its Ray, or over SSH' -x -a 'auto ray ssh'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l config-file -d 'Horovod\'s YAML file of tunables' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l fusion-threshold-mb -d 'Size up to which tensors are fused into one message' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l cycle-time-ms -d 'Time between two cycles of Horovod\'s background loop' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l cache-capacity -d 'Responses that workers cache instead of negotiating them again' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l hierarchical-allreduce -d 'Reduce within a host first, then between hosts'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l no-hierarchical-allreduce -d 'Reduce within a host first, then between hosts'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l hierarchical-allgather -d 'Gather within a host first, then between hosts'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l no-hierarchical-allgather -d 'Gather within a host first, then between hosts'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l torus-allreduce -d 'Reduce over a two-dimensional torus of hosts and devices'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l no-torus-allreduce -d 'Reduce over a two-dimensional torus of hosts and devices'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l tcp -d 'Restrict NCCL to TCP'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l autotune -d 'Let Horovod tune its parameters during training; the options below need it'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l autotune-log-file -d 'CSV file for the values that were tried' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l autotune-warmup-samples -d 'Samples to discard at the start' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l autotune-steps-per-sample -d 'Training steps per sample' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l autotune-bayes-opt-max-samples -d 'Maximum number of samples' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l autotune-gaussian-process-noise -d 'Assumed noise of a sample' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l timeline-filename -d 'Write Horovod\'s own trace of its operations' -r -F
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l timeline-mark-cycles -d 'Mark each cycle in the timeline'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l no-stall-check -d 'Do not check for stalled ranks'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l stall-check-warning-time-seconds -d 'Warn about a rank that stalls for this long' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l stall-check-shutdown-time-seconds -d 'End the job when a rank stalls for this long' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l mpi-threads-disable -d 'Passed on to workers; has no effect without MPI'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l num-nccl-streams -d 'NCCL streams per worker' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l thread-affinity -d 'CPU core of Horovod\'s background thread; useful with one worker per host' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l gloo-timeout-seconds -d 'How long Gloo waits for its peers' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l log-level -d 'Log level of Horovod and the launcher' -x -a 'TRACE DEBUG INFO WARNING ERROR FATAL'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l log-without-timestamp -d 'Omit the time from Horovod\'s own messages'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l gloo -d 'Accepted; Horovod always uses Gloo under hvdray'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l mpi -d 'Not supported: hvdray starts the workers itself, without mpirun'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l jsrun -d 'Not supported: hvdray starts the workers itself, without jsrun'
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l mpi-args -d 'Not supported: there is no mpirun to pass them to' -x
complete -c hvdray -c horovodrun -n '__hvdray_of run check serve submit bench' -l binding-args -d 'Not supported: there is no mpirun or jsrun to pass them to' -x
complete -c hvdray -n '__hvdray_of check replay status monitor jobs slots cluster tune' -l json -d 'Print one JSON object instead of text'
complete -c hvdray -n '__hvdray_of check' -l import -d 'Import these modules with the command\'s Python on every host, as workers would' -x
complete -c hvdray -n '__hvdray_of serve' -l control-fd -d 'The client is at the other end of this descriptor, a connected Unix stream socket' -x
complete -c hvdray -n '__hvdray_of serve' -l control -d 'Make a Unix socket there, which only this user can use, and wait for a client' -x
complete -c hvdray -n '__hvdray_of serve' -l linger -d 'With --control: how long the hosts are held for another client after a client leaves' -x
complete -c hvdray -n '__hvdray_of serve' -l host-source -d 'control: the client lists the hosts of an elastic job, and each change' -x -a 'control'
complete -c hvdray -n '__hvdray_of serve' -l ray-broker-fd -d 'Slots come from Ray, through a broker at the other end of this descriptor, as the Python package has one' -x
complete -c hvdray -n '__hvdray_of up down' -s y -d 'Do it without asking'
complete -c hvdray -n '__hvdray_of up down' -l yes -d 'Do it without asking'
complete -c hvdray -n '__hvdray_of up' -l restart-only -d 'Restart Ray on all nodes, but run no set-up'
complete -c hvdray -n '__hvdray_of up' -l no-restart -d 'Do not restart a running Ray, whatever changed in the set-up'
complete -c hvdray -n '__hvdray_of up' -l force-setup -d 'Run every step of the set-up, even those already done'
complete -c hvdray -n '__hvdray_of up' -l lease -d 'Every node ends its Ray by itself after TIME (8h, 2d) unless a further up --lease renews it' -x
complete -c hvdray -n '__hvdray_of up down stop status monitor exec attach submit rsync-up rsync-down get-head-ip get-worker-ips dashboard logs cluster' -s n -d 'Use this name instead of the file\'s cluster_name' -x
complete -c hvdray -n '__hvdray_of up down stop status monitor exec attach submit rsync-up rsync-down get-head-ip get-worker-ips dashboard logs cluster' -l cluster-name -d 'Use this name instead of the file\'s cluster_name' -x
complete -c hvdray -n '__hvdray_of up cluster' -l min-workers -d 'Use this number instead of the file\'s min_workers; if the file has node types, one of workers' -x
complete -c hvdray -n '__hvdray_of up cluster' -l max-workers -d 'Use this number instead of the file\'s max_workers' -x
complete -c hvdray -n '__hvdray_of up' -l use-login-shells -d 'Run the file\'s commands in an interactive login bash, as Ray does, so that ~/.bashrc counts'
complete -c hvdray -n '__hvdray_of up' -l use-normal-shells -d 'Run the file\'s commands in an interactive login bash, as Ray does, so that ~/.bashrc counts'
complete -c hvdray -n '__hvdray_of up down monitor exec attach submit rsync-up rsync-down get-head-ip get-worker-ips dashboard logs' -l no-config-cache -d 'Accepted for Ray\'s scripts; hvdray caches no configuration and collects no statistics'
complete -c hvdray -n '__hvdray_of up down monitor exec attach submit rsync-up rsync-down get-head-ip get-worker-ips dashboard logs' -l disable-usage-stats -d 'Accepted for Ray\'s scripts; hvdray caches no configuration and collects no statistics'
complete -c hvdray -n '__hvdray_of up down monitor exec attach submit rsync-up rsync-down get-head-ip get-worker-ips dashboard logs' -l redirect-command-output -d 'Accepted for Ray\'s scripts; hvdray caches no configuration and collects no statistics'
complete -c hvdray -n '__hvdray_of down' -l workers-only -d 'Leave the head as it is'
complete -c hvdray -n '__hvdray_of down' -l keep-min-workers -d 'Leave the head and the first min_workers workers as they are'
complete -c hvdray -n '__hvdray_of down' -l purge -d 'In a cloud, also terminate stopped machines and delete the key pair, security group and instance profile that hvdray made'
complete -c hvdray -n '__hvdray_of down' -l expired -d 'End the cluster only if its lease (up --lease) has ended'
complete -c hvdray -n '__hvdray_of stop monitor exec attach submit rsync-up rsync-down dashboard logs' -s v -d 'Print what hvdray does and why'
complete -c hvdray -n '__hvdray_of stop monitor exec attach submit rsync-up rsync-down dashboard logs' -l verbose -d 'Print what hvdray does and why'
complete -c hvdray -n '__hvdray_of monitor' -l interval -d 'Time between two looks at the cluster' -x
complete -c hvdray -n '__hvdray_of exec attach submit' -l tmux -d 'Run it in a new tmux session and return at once'
complete -c hvdray -n '__hvdray_of exec attach submit' -l screen -d 'Run it in a new screen and return at once'
complete -c hvdray -n '__hvdray_of exec attach submit' -s p -d 'Meanwhile, forward this port of our loopback to the same port there; LOCAL:REMOTE for another' -x
complete -c hvdray -n '__hvdray_of exec attach submit' -l port-forward -d 'Meanwhile, forward this port of our loopback to the same port there; LOCAL:REMOTE for another' -x
complete -c hvdray -n '__hvdray_of exec attach submit' -l run-env -d 'Run it on the host or in the file\'s container' -x -a 'auto host docker'
complete -c hvdray -n '__hvdray_of exec attach' -l node-ip -d 'Log in to this machine of the cluster instead of the head' -x
complete -c hvdray -n '__hvdray_of exec attach submit' -l start -d 'Run hvdray up --yes first; stop if it fails'
complete -c hvdray -n '__hvdray_of exec submit' -l stop -d 'Run hvdray down --yes afterwards, however the command ended; its exit code is kept'
complete -c hvdray -n '__hvdray_of attach' -s N -d 'With --tmux or --screen, open a new one even if there is one already'
complete -c hvdray -n '__hvdray_of attach' -l new -d 'With --tmux or --screen, open a new one even if there is one already'
complete -c hvdray -n '__hvdray_of submit' -l gang -d 'Run the script as hvdray run would, on -np slots of the cluster\'s Ray; takes every option of run'
complete -c hvdray -n '__hvdray_of rsync-up' -s A -d 'Copy to the workers, too'
complete -c hvdray -n '__hvdray_of rsync-up' -l all-nodes -d 'Copy to the workers, too'
complete -c hvdray -n '__hvdray_of dashboard' -s p -d 'Port to listen on, on our loopback' -x
complete -c hvdray -n '__hvdray_of dashboard' -l port -d 'Port to listen on, on our loopback' -x
complete -c hvdray -n '__hvdray_of dashboard' -l remote-port -d 'Port of the dashboard on the head' -x
complete -c hvdray -n '__hvdray_of logs' -l lines -d 'Print only the last N lines' -x
complete -c hvdray -n '__hvdray_of logs' -s f -d 'Print what is added to the file, until Ctrl-C'
complete -c hvdray -n '__hvdray_of logs' -l follow -d 'Print what is added to the file, until Ctrl-C'
complete -c hvdray -n '__hvdray_of cluster' -l resolved -d 'Print what real ray takes: the same without the section \'hvdray\''
complete -c hvdray -n '__hvdray_of bench' -s b -d 'Smallest size: bytes, or with K, M or G (powers of 1024)' -x
complete -c hvdray -n '__hvdray_of bench' -l minbytes -d 'Smallest size: bytes, or with K, M or G (powers of 1024)' -x
complete -c hvdray -n '__hvdray_of bench' -s e -d 'Largest size' -x
complete -c hvdray -n '__hvdray_of bench' -l maxbytes -d 'Largest size' -x
complete -c hvdray -n '__hvdray_of bench' -s f -d 'Each size is N times the one before' -x
complete -c hvdray -n '__hvdray_of bench' -l stepfactor -d 'Each size is N times the one before' -x
complete -c hvdray -n '__hvdray_of bench' -s i -d 'Each size is SIZE more than the one before, in place of -f' -x
complete -c hvdray -n '__hvdray_of bench' -l stepbytes -d 'Each size is SIZE more than the one before, in place of -f' -x
complete -c hvdray -n '__hvdray_of bench' -l collective -d 'Collectives to measure: all_reduce, all_gather, broadcast, reduce, reduce_scatter, all_to_all, gather, scatter, send_recv' -x
complete -c hvdray -n '__hvdray_of bench' -s d -d 'Types of the elements: float32, bfloat16, int8, ' -x
complete -c hvdray -n '__hvdray_of bench' -l datatype -d 'Types of the elements: float32, bfloat16, int8, ' -x
complete -c hvdray -n '__hvdray_of bench' -s o -d 'Reductions: sum, average, min, max, product, ..' -x
complete -c hvdray -n '__hvdray_of bench' -l op -d 'Reductions: sum, average, min, max, product, ..' -x
complete -c hvdray -n '__hvdray_of bench' -s r -d 'Roots of the collectives that have one' -x
complete -c hvdray -n '__hvdray_of bench' -l root -d 'Roots of the collectives that have one' -x
complete -c hvdray -n '__hvdray_of bench' -l backend -d 'Backends of the collective library, by the names that HVDRAY_COLLECTIVE takes (docs/collective.md), one after the other' -x
complete -c hvdray -n '__hvdray_of bench' -s n -d 'Calls to measure for each row, in place and not' -x
complete -c hvdray -n '__hvdray_of bench' -l iters -d 'Calls to measure for each row, in place and not' -x
complete -c hvdray -n '__hvdray_of bench' -s w -d 'Warm-up calls before the measurement' -x
complete -c hvdray -n '__hvdray_of bench' -l warmup-iters -d 'Warm-up calls before the measurement' -x
complete -c hvdray -n '__hvdray_of bench' -s c -d 'Whether to compare each result, element by element, with the right one' -x
complete -c hvdray -n '__hvdray_of bench' -l check -d 'Whether to compare each result, element by element, with the right one' -x
complete -c hvdray -n '__hvdray_of bench' -l json -d 'Write the results as JSON' -r -F
complete -c hvdray -n '__hvdray_of bench' -l csv -d 'Write the results as comma-separated values' -r -F
complete -c hvdray -n '__hvdray_of bench' -l tune -d 'Instead of a sweep: find the size thresholds between all-reduce algorithms, and write the table for HVDRAY_COLLECTIVE_TABLE' -r -F
complete -c hvdray -n '__hvdray_of bench' -l plot -d 'Plot busbw over size below the table, or into a file; --plot FILE.svg means the same' -f -a 'FILE.svg'
complete -c hvdray -n '__hvdray_of tune' -l resume -d 'Go on with the study, or join those who work on it'
complete -c hvdray -n '__hvdray_of tune' -l study -d 'With show: which study of the storage' -x
complete -c hvdray -n '__hvdray_of tune' -l plot -d 'With show: write Optuna\'s plots there: the history, and how important each parameter is' -x
complete -c hvdray -n '__hvdray_of rendezvous' -l host -d 'IPv4 address to listen on' -x
complete -c hvdray -n '__hvdray_of rendezvous' -l bind -d 'IPv4 address to listen on' -x
complete -c hvdray -n '__hvdray_of rendezvous' -l port -d 'Port to listen on; 0: any free port' -x
complete -c hvdray -n '__hvdray_of rendezvous' -l allow -d 'Addresses that may connect' -x
